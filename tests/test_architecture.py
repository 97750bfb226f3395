"""Imports go one way, and nobody asks for a method by its name."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import labelnoise
from labelnoise.data import DATASETS
from labelnoise.methods import METHODS

SOURCE = Path(labelnoise.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))

LEAVES = {"errors", "seeds", "losses", "ramp", "mixture", "dist", "batch", "skipping"}
"""Modules that stand on nothing but each other."""

TRAINING = LEAVES | {"problem", "learner", "passes", "method", "rules"}
EVERYTHING_BELOW = TRAINING | {"methods", "noise", "data", "nets", "metrics", "record", "engine"}

MAY_IMPORT: dict[str, set[str]] = {
    **{leaf: {"errors"} for leaf in LEAVES},
    "losses": {"errors", "dist"},
    "problem": {"batch", "errors"},
    "learner": {"batch", "problem", "errors", "dist"},
    "passes": {"learner", "skipping", "errors"},
    "method": {"batch", "problem", "learner", "passes", "losses", "errors", "dist"},
    "rules": {"errors", "dist"},
    "methods": TRAINING,
    "nets": {"errors"},
    "metrics": {"errors", "dist"},
    "noise": {"errors", "seeds"},
    "data": {"errors", "seeds", "batch", "dist"},
    "record": {"batch", "errors", "metrics", "dist"},
    "engine": {
        *("batch", "problem", "learner", "method", "errors", "seeds", "dist"),
        *("data", "metrics", "record"),
    },
    "adapters": EVERYTHING_BELOW | {"experiment", "audit"},
    "experiment": EVERYTHING_BELOW,
    "audit": EVERYTHING_BELOW | {"experiment"},
    "arguments": {"errors"},
    "cli": EVERYTHING_BELOW | {"adapters", "experiment", "audit", "arguments"},
    "experiments": set(),
    "__main__": {"cli"},
    "__init__": set(),
}
"""By module or package directly under labelnoise; each may also import from itself."""


def part(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported(tree: ast.Module) -> Iterator[str]:
    """Names under labelnoise that a module imports when it runs."""
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            assert node.module is not None
            yield node.module
            if node.module == "labelnoise":
                yield from (f"labelnoise.{alias.name}" for alias in node.names)


def parts_imported(path: Path) -> set[str]:
    names = [name.split(".") for name in imported(ast.parse(path.read_text()))]
    modules = {p.stem for p in SOURCE.iterdir() if p.suffix == ".py" or p.is_dir()}
    return {name[1] for name in names if name[0] == "labelnoise" and len(name) > 1} & modules


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_go_one_way(path: Path) -> None:
    own = part(path)
    assert own in MAY_IMPORT, f"say in MAY_IMPORT what {own} may import"
    wrong = parts_imported(path) - MAY_IMPORT[own] - {own}
    assert not wrong, f"{own} must not import {', '.join(sorted(wrong))}"


def test_the_map_of_imports_has_no_circle() -> None:
    reached: dict[str, set[str]] = {}

    def below(name: str, above: tuple[str, ...]) -> set[str]:
        assert name not in above, f"{' -> '.join((*above, name))}"
        if name not in reached:
            nexts = MAY_IMPORT[name] - {name}
            reached[name] = nexts.union(*(below(each, (*above, name)) for each in nexts))
        return reached[name]

    for name in MAY_IMPORT:
        below(name, ())
    for leaf in ("noise", "data", "nets", "metrics", "losses", "seeds", "errors", "engine"):
        assert not reached[leaf] & {"methods", "experiment", "audit", "adapters", "cli"}


def test_methods_import_each_other_only_where_one_builds_on_another() -> None:
    """Add a pair here together with the sentence in the method's docstring."""
    builds_on = {("coteaching_plus", "coteaching")}
    for path in (SOURCE / "methods").glob("*.py"):
        if path.stem == "__init__":
            continue
        for name in imported(ast.parse(path.read_text())):
            if name.startswith("labelnoise.methods"):
                assert (path.stem, name.split(".")[-1]) in builds_on


def test_only_dist_knows_torch_distributed() -> None:
    for path in FILES:
        names = set(imported(ast.parse(path.read_text())))
        if part(path) != "dist":
            assert not any(name.startswith("torch.distributed") for name in names), path


def test_the_command_and_the_package_start_without_anything_heavy() -> None:
    heavy = ("torch", "numpy", "rich", "pydantic", "sklearn", "matplotlib")
    program = (
        "import sys, labelnoise, labelnoise.cli\n"
        f"print(*[name for name in {heavy!r} if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert found.stderr == ""
    assert found.stdout.split() == []


def test_public_names_exist_and_come_from_where_they_say() -> None:
    for name in labelnoise.__all__:
        assert getattr(labelnoise, name) is not None
    assert set(labelnoise.__all__) <= set(dir(labelnoise))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        labelnoise.nonsense  # noqa: B018


def test_names_for_type_checkers_and_names_at_run_time_agree() -> None:
    tree = ast.parse((SOURCE / "__init__.py").read_text())
    shown = {
        alias.asname: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("labelnoise")
        for alias in node.names
    }
    homes = {name: f"labelnoise.{home}" for name, home in labelnoise._HOME.items()}
    assert shown == homes


def test_no_module_is_named_after_nothing() -> None:
    vague = {"utils", "util", "helpers", "helper", "common", "misc", "tools", "base", "core"}
    assert not {path.stem for path in FILES} & vague
    assert not {path.name for path in SOURCE.rglob("*") if path.is_dir()} & vague


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_nothing_is_decided_by_the_name_of_a_method_or_data_set(path: Path) -> None:
    names = {*METHODS, *DATASETS}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Compare | ast.MatchValue):
            literals = {c.value for c in ast.walk(node) if isinstance(c, ast.Constant)}
            found = {value for value in literals if isinstance(value, str)} & names
            assert not found, f"line {node.lineno} compares with {found}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_step_never_asks_the_host_by_item(path: Path) -> None:
    """One host synchronisation an epoch, in Tally."""
    if part(path) not in {"methods", "method", "learner", "losses", "batch", "ramp", "mixture"}:
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute):
            assert node.attr not in {"item", "tolist", "numpy"}, f"line {node.lineno}"
