"""What the command line takes: commands, options, and errors that suggest what was meant."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from labelnoise import __version__
from labelnoise.errors import LabelNoiseError, unknown

CATALOGUES = ("methods", "experiments", "datasets", "nets", "noises", "presets")
PRECISIONS = ("float32", "bfloat16", "float16")
SCOPES = ("global", "local")
TOOLS = ("cleanlab", "fiftyone", "label-studio", "csv")
NOISE_HELP = "wrong labels to plant, such as symmetric:0.5 ('labelnoise list noises')"


class _Parser(argparse.ArgumentParser):
    """argparse, but an error is one line that suggests what was meant."""

    def error(self, message: str) -> NoReturn:
        wrong = re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message)
        if wrong:
            choices = [choice.strip("' ") for choice in wrong[2].split(",")]
            raise unknown("command" if "COMMAND" in message else "choice", wrong[1], choices)
        raise LabelNoiseError(f"{message} (see {self.prog} --help)")


def parse(words: Sequence[str]) -> argparse.Namespace:
    """The options of a command; `name` is the command's."""
    parser, commands = _parser()
    options, rest = parser.parse_known_args(words)
    if rest:
        command = commands[options.name]
        known = [flag for action in command._actions for flag in action.option_strings]
        if rest[0].startswith("-"):
            raise unknown(f"option of {options.name!r}", rest[0].partition("=")[0], known)
        raise LabelNoiseError(f"{options.name!r} takes no further argument {rest[0]!r}")
    return options


def _parser() -> tuple[_Parser, dict[str, _Parser]]:
    parser = _Parser(
        prog="labelnoise",
        description="Learn from data whose labels are partly wrong.",
        epilog="Start with: labelnoise demo",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"labelnoise {__version__}")
    parser.add_argument("--debug", action="store_true", help="show tracebacks")
    commands = parser.add_subparsers(metavar="COMMAND", dest="name", required=True)
    made: dict[str, _Parser] = {}

    def command(name: str, explains: str) -> _Parser:
        made[name] = commands.add_parser(
            name,
            help=explains,
            description=explains[0].upper() + explains[1:] + ".",
            allow_abbrev=False,
        )
        made[name].add_argument("--debug", action="store_true", help="show tracebacks")
        return made[name]

    _add_audit(command("audit", "find the wrong labels of your data"))
    _add_train(command("train", "train a method on data with wrong labels"))

    demo = command("demo", "train cross-entropy and BARE on half-wrong digits")
    demo.add_argument(
        "--out", type=Path, default=Path("demo"), help="folder for runs and curves (default: demo)"
    )

    _add_reproduce(command("reproduce", "run a table or figure of the paper and compare with it"))

    inject = command("inject", "plant wrong labels and write them beside the true ones")
    _add_data(inject)
    inject.add_argument("--noise", required=True, metavar="KIND:RATE", help=NOISE_HELP)
    inject.add_argument("--seed", type=int, default=0, help="which labels are hit (default: 0)")
    inject.add_argument("--out", type=Path, required=True, help="CSV file to write")
    _add_json(inject)

    predict = command("predict", "predict labels with a finished run")
    predict.add_argument("run", type=Path, metavar="RUN", help="a run's folder")
    _add_data(predict)
    predict.add_argument("--out", type=Path, required=True, help="CSV file to write")
    _add_json(predict)

    show = command("show", "show runs as a table and as curves")
    show.add_argument(
        "run", type=Path, nargs="+", metavar="RUN", help="folders of runs, or packed runs"
    )
    show.add_argument(
        "--out", type=Path, help="PNG file (default: curves.png beside the first run)"
    )
    _add_json(show)

    compare = command("compare", "compare runs side by side, paired by seed")
    compare.add_argument(
        "run", type=Path, nargs="+", metavar="RUN", help="folders of runs, or packed runs"
    )
    _add_json(compare)

    report = command("report", "write one HTML page of all runs in a folder")
    report.add_argument("folder", type=Path, metavar="DIR", help="where the runs are")
    report.add_argument("--out", type=Path, help="HTML file (default: DIR/report.html)")

    _add_apply(command("apply", "make a corrected copy of audited labels, or take it back"))
    _add_export(command("export", "write an audit for another tool"))
    doctor = command("doctor", "say what this machine has, and what is understood of DATA")
    _add_data(doctor, nargs="?")
    doctor.add_argument("--out", type=Path, default=Path("runs"), help="where runs will be written")
    _add_json(doctor)

    pack = command("pack", "keep header and rows of finished runs as small files")
    pack.add_argument("run", type=Path, nargs="+", metavar="RUN", help="folders of runs")
    pack.add_argument("--out", type=Path, required=True, help="folder to write to")

    listing = command("list", "list what there is by name")
    listing.add_argument("what", choices=CATALOGUES, help="which names")
    _add_json(listing)
    return parser, made


def _add_audit(audit: _Parser) -> None:
    _add_data(audit)
    audit.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="folder for what is found"
    )
    audit.add_argument(
        "--noise",
        default="none",
        metavar="KIND:RATE",
        help="plant wrong labels in good ones, to try the audit out ('labelnoise list noises')",
    )
    _add_net(audit)
    audit.add_argument("--epochs", type=int, help="default: 12, or more for few rows")
    audit.add_argument("--batch-size", type=int, help="default: 16 to 128, by the number of rows")
    audit.add_argument("--seed", type=int, default=0, help="initialisation and order (default: 0)")
    audit.add_argument("--data-seed", type=int, default=0, help="planted noise (default: 0)")
    _add_device(audit)
    _add_json(audit)


def _add_train(train: _Parser) -> None:
    _add_data(train)
    train.add_argument(
        "--method", default="bare", help="'labelnoise list methods' (default: %(default)s)"
    )
    train.add_argument("--noise", default="none", metavar="KIND:RATE", help=NOISE_HELP)
    train.add_argument(
        "--noise-rate",
        type=_rate,
        metavar="R",
        help="what a method that needs it is told: a number, true, nominal, or auto to estimate it "
        "(default: true where the true labels are known)",
    )
    train.add_argument(
        "--trusted",
        metavar="FILE|N",
        help="verified samples for a method that needs them: a file like DATA, or how many rows of "
        "the validation part to trust (default: all of it where the true labels are known)",
    )
    _add_net(train)
    train.add_argument(
        "--weights",
        metavar="FILE",
        help="what the net begins with: .pth or .safetensors, here or in the data directory",
    )
    train.add_argument(
        "--preset", default="recommended", help="'labelnoise list presets' (default: %(default)s)"
    )
    train.add_argument("--epochs", type=int, help="default: the preset's")
    train.add_argument(
        "--batch-size", type=int, help="of each process under torchrun (default: the preset's, 128)"
    )
    train.add_argument(
        "--classes-per-batch",
        type=int,
        metavar="N",
        help="draw each mini-batch from so few classes, every class equally often, where there are "
        "many (default: from all)",
    )
    train.add_argument("--seed", type=int, default=0, help="initialisation and order (default: 0)")
    train.add_argument("--data-seed", type=int, default=0, help="split and noise (default: 0)")
    train.add_argument(
        "--set",
        action="append",
        type=_assignment,
        metavar="FIELD=VALUE",
        help="a field of the method or of its training, such as threshold=class or lr=0.001",
    )
    train.add_argument(
        "--trace-epochs",
        type=_numbers,
        default=(),
        metavar="N,N",
        help="epochs, from 1, to keep the thresholds of every mini-batch for",
    )
    train.add_argument(
        "--out", type=Path, default=Path("runs"), help="folder of the run's folder (default: runs)"
    )
    train.add_argument(
        "--tensorboard", action="store_true", help="also log for TensorBoard, in the run's folder"
    )
    large = train.add_argument_group("of large trainings")
    large.add_argument(
        "--accumulate", type=_positive, metavar="N", help="mini-batches that make one update"
    )
    large.add_argument("--precision", choices=PRECISIONS, help="default: float32")
    large.add_argument(
        "--scope",
        choices=SCOPES,
        help="statistics of the mini-batches of all processes under torchrun, or of each its own "
        "(default: global)",
    )
    _add_device(train)
    _add_json(train)


def _add_reproduce(reproduce: _Parser) -> None:
    reproduce.add_argument(
        "experiment", metavar="ID", help="'labelnoise list experiments', or your own TOML file"
    )
    reproduce.add_argument("--trials", type=_positive, metavar="N", help="default: the paper's")
    reproduce.add_argument("--epochs", type=_positive, metavar="N", help="default: the paper's")
    reproduce.add_argument("--methods", type=_words, default=(), metavar="A,B", help="only these")
    reproduce.add_argument(
        "--only",
        action="append",
        type=_pair,
        metavar="KEY=VALUE",
        help="only runs with this setting, such as dataset=mnist",
    )
    reproduce.add_argument(
        "--jobs",
        type=_count,
        metavar="N",
        help="processes at a time (default: one a core, on a cluster as many as it takes; 0: train "
        "nothing, show what there is)",
    )
    reproduce.add_argument(
        "--cluster",
        metavar="KIND://HOST:PORT",
        help="train on the machines of a running cluster: dask://... or ray://...",
    )
    reproduce.add_argument(
        "--out", type=Path, default=Path("runs"), help="folder of runs and tables (default: runs)"
    )
    reproduce.add_argument("--data-dir", type=Path, help="where data sets are (or LABELNOISE_DATA)")
    _add_json(reproduce)


def _add_apply(apply: _Parser) -> None:
    apply.add_argument("folder", type=Path, nargs="?", metavar="DIR", help="an audit's folder")
    apply.add_argument(
        "decisions", type=Path, nargs="?", metavar="DECISIONS", help="what its page exported"
    )
    apply.add_argument(
        "--out",
        type=Path,
        metavar="NEW",
        help="the copy: of the kind that was audited, for a named data set a CSV file",
    )
    files = apply.add_mutually_exclusive_group()
    files.add_argument("--link", action="store_true", help="link the files of a folder")
    files.add_argument("--copy", action="store_true", help="copy the files of a folder (default)")
    apply.add_argument(
        "--undo",
        type=Path,
        nargs="?",
        const=True,
        metavar="NEW",
        help="remove what apply made at NEW, if nothing of it was changed since",
    )
    apply.add_argument("--data-dir", type=Path, help="where data sets are (or LABELNOISE_DATA)")
    _add_json(apply)


def _add_export(export: _Parser) -> None:
    export.add_argument("folder", type=Path, metavar="DIR", help="an audit's folder")
    export.add_argument("--to", required=True, choices=TOOLS, help="the tool")
    export.add_argument("--out", type=Path, required=True, metavar="FILE", help="file to write")
    export.add_argument(
        "--decisions", type=Path, metavar="FILE", help="decisions to go with --to csv"
    )
    export.add_argument("--data-dir", type=Path, help="where data sets are (or LABELNOISE_DATA)")
    _add_json(export)


def _add_data(command: _Parser, nargs: str | None = None) -> None:
    explains = "a name ('labelnoise list datasets'), file or folder of class folders"
    command.add_argument("data", metavar="DATA", nargs=nargs, help=explains)
    command.add_argument("--data-dir", type=Path, help="where data sets are (or LABELNOISE_DATA)")
    columns = command.add_argument_group("of a table (.csv, .tsv, .parquet)")
    columns.add_argument(
        "--label", metavar="NAME", help="column of labels; for .npy embeddings, a file of them"
    )
    columns.add_argument("--image", metavar="NAME", help="column of paths of images to learn from")
    columns.add_argument("--text", metavar="NAME", help="column of texts to learn from")


def _add_net(command: _Parser) -> None:
    command.add_argument(
        "--net",
        default="auto",
        help="'labelnoise list nets', or your own package.module:name (default: %(default)s)",
    )


def _add_device(command: _Parser) -> None:
    command.add_argument("--device", default="auto", help="auto, cpu, cuda or mps (default: auto)")


def _add_json(command: _Parser) -> None:
    command.add_argument("--json", action="store_true", help="print JSON instead of a table")


def _assignment(text: str) -> tuple[str, Any]:
    field, equals, value = text.partition("=")
    if not equals or not field:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form FIELD=VALUE")
    try:
        return field, json.loads(value.lower() if value in ("True", "False") else value)
    except json.JSONDecodeError:
        return field, None if value in ("none", "None") else value


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form KEY=VALUE")
    return key, value


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _count(text: str, least: int = 0) -> int:
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least} on")
    return int(text)


def _positive(text: str) -> int:
    return _count(text, least=1)


def _rate(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of numbers like 1,100") from None
