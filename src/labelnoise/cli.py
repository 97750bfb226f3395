"""The command line: parses, calls, prints.

Nothing heavy is imported before it is needed, so that `--help` answers at once.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from labelnoise import __version__
from labelnoise.errors import LabelNoiseError, unknown

if TYPE_CHECKING:
    from rich.console import Console

INTERRUPTED = 130  # what a shell reports for Ctrl-C
DEMO_EPOCHS = 200  # the paper's number, and enough for cross-entropy to memorise wrong labels
CATALOGUES = ("methods", "datasets", "nets", "noises", "presets")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit status."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        options = _parse(words)
        options.command(options)
    except LabelNoiseError as error:
        if "--debug" in words:
            raise
        return _complain(str(error), 2)
    except KeyboardInterrupt:
        return _complain("stopped; the same command goes on where it was", INTERRUPTED)
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if "--debug" in words:
            raise
        what = " ".join(str(error).split()) or "no message"
        return _complain(f"{type(error).__name__}: {what} (--debug shows where)", 1)
    return 0


def _complain(message: str, status: int) -> int:
    print(f"labelnoise: {message}", file=sys.stderr)
    return status


# --- commands -------------------------------------------------------------------------------------


def _train(options: argparse.Namespace) -> None:
    changes = dict(options.set or [])
    changes |= {
        name: value
        for name, value in (("epochs", options.epochs), ("batch_size", options.batch_size))
        if value is not None
    }
    run = _train_with_progress(options, changes)
    if options.json:
        print(json.dumps(run.summary()))
        return
    _show_runs([run])
    print(f"run: {run.path}")


def _demo(options: argparse.Namespace) -> None:
    from labelnoise.experiment.figure import draw_curves

    runs = []
    for method in ("cce", "bare"):
        words = ["train", "digits", "--method", method, "--noise", "symmetric:0.5"]
        each = _parse([*words, "--out", str(options.out)])
        runs.append(_train_with_progress(each, {"epochs": DEMO_EPOCHS}))
    _show_runs(runs)
    draw_curves(runs, options.out / "curves.png")
    print(f"curves: {options.out / 'curves.png'}")


def _inject(options: argparse.Namespace) -> None:
    from labelnoise.data import read
    from labelnoise.noise import parse, realised
    from labelnoise.record.run import write_atomically
    from labelnoise.seeds import stream

    noise, dataset = parse(options.noise), read(options.data, options.data_dir)
    given = noise.plant(
        dataset.labels,
        num_classes=len(dataset.classes),
        inputs=dataset.inputs,
        flips=dataset.flips,
        generator=stream(options.seed, "noise", "inject"),
    )
    names = dataset.classes
    lines = ["row,true_label,given_label"] + [
        f"{row},{_csv(names[truth])},{_csv(names[label])}"
        for row, (truth, label) in enumerate(
            zip(dataset.labels.tolist(), given.tolist(), strict=True)
        )
    ]
    text = "\n".join(lines) + "\n"
    write_atomically(options.out, lambda file: file.write(text.encode()))
    rate, transition = realised(dataset.labels, given, len(names))
    if options.json:
        report = {"noise": noise.text, "rate": rate, "transition": transition.tolist()}
        print(json.dumps({**report, "rows": len(given), "out": str(options.out)}))
        return
    _console().print(_transition_table(names, transition.tolist()))
    print(f"{len(given)} labels, {100 * rate:.2f} % of them wrong: {options.out}")


def _predict(options: argparse.Namespace) -> None:
    from labelnoise.experiment.predict import Predictor, inputs_of
    from labelnoise.record.run import write_atomically

    predictor = Predictor(options.run)
    inputs, labels = inputs_of(options.data, predictor.classes, options.data_dir)
    confidence, predicted = predictor.probs(inputs).max(dim=1)
    lines = ["row,predicted_label,confidence"] + [
        f"{row},{_csv(predictor.classes[label])},{sure:.6f}"
        for row, (label, sure) in enumerate(
            zip(predicted.tolist(), confidence.tolist(), strict=True)
        )
    ]
    text = "\n".join(lines) + "\n"
    write_atomically(options.out, lambda file: file.write(text.encode()))
    agreement = None if labels is None else float((predicted == labels).double().mean())
    if options.json:
        report = {"rows": len(predicted), "accuracy": agreement, "out": str(options.out)}
        print(json.dumps(report))
        return
    agrees = "" if agreement is None else f", {100 * agreement:.2f} % as labelled"
    print(f"{len(predicted)} predictions{agrees}: {options.out}")


def _show(options: argparse.Namespace) -> None:
    from labelnoise.record.run import Run

    runs = [Run(path) for path in options.run]
    if options.json:
        print(json.dumps([run.summary() for run in runs]))
        return
    from labelnoise.experiment.figure import draw_curves

    _show_runs(runs)
    folder = runs[0].path if runs[0].path.is_dir() else runs[0].path.parent
    picture = options.out or folder / "curves.png"
    draw_curves(runs, picture)
    print(f"curves: {picture}")


def _pack(options: argparse.Namespace) -> None:
    from labelnoise.record.run import Run, pack

    for path in options.run:
        print(pack(Run(path), options.out))


def _list(options: argparse.Namespace) -> None:
    entries = _catalogue(options.what)
    if options.json:
        print(json.dumps([{"name": name, "explains": line} for name, line in entries]))
        return
    width = max(len(name) for name, _ in entries)
    for name, line in entries:
        print(f"{name:{width}}  {line}")


def _catalogue(what: str) -> list[tuple[str, str]]:
    from labelnoise.data import DATASETS
    from labelnoise.experiment.spec import presets
    from labelnoise.methods import METHODS
    from labelnoise.nets import NETS
    from labelnoise.noise import KINDS

    catalogues: dict[str, list[tuple[str, str]]] = {
        "methods": [(name, _first_line(method)) for name, method in METHODS.items()],
        "datasets": [(name, source.explains) for name, source in DATASETS.items()],
        "nets": [(name, net.explains) for name, net in NETS.items()],
        "noises": [(kind.usage, kind.explains) for kind in KINDS.values()],
        "presets": [(name, preset["explains"]) for name, preset in presets().items()],
    }
    return catalogues[what]


def _first_line(thing: object) -> str:
    return (thing.__doc__ or "").strip().splitlines()[0]


# --- what they share ------------------------------------------------------------------------------


def _train_with_progress(options: argparse.Namespace, changes: dict[str, Any]) -> Any:
    from labelnoise.experiment.progress import Progress, use_all_cores
    from labelnoise.experiment.run import train

    use_all_cores()
    with Progress() as progress, _warnings_on_one_line():
        return train(
            options.data,
            method=options.method,
            noise=options.noise,
            net=options.net,
            preset=options.preset,
            changes=changes,
            trace=options.trace_epochs,
            seed=options.seed,
            data_seed=options.data_seed,
            out=options.out,
            data_dir=options.data_dir,
            device=options.device,
            watch=progress,
        )


def _show_runs(runs: list[Any]) -> None:
    from labelnoise.experiment.table import runs_table

    _console().print(runs_table(runs))


def _console() -> Console:
    """Standard output; a table is never cut off when it is piped."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 1000)


@contextlib.contextmanager
def _warnings_on_one_line() -> Iterator[None]:
    import warnings

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        print(f"labelnoise: warning: {message}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.simplefilter("once", UserWarning)
        warnings.showwarning = show
        yield


def _transition_table(names: Sequence[str], transition: list[list[float]]) -> Any:
    from rich.table import Table

    table = Table("true \\ given", *names, title="realised transition, in percent")
    for name, row in zip(names, transition, strict=True):
        table.add_row(name, *(f"{100 * value:.2f}" for value in row))
    return table


def _csv(text: str) -> str:
    """A field as CSV wants it."""
    return '"' + text.replace('"', '""') + '"' if re.search('[",\n\r]', text) else text


# --- arguments ------------------------------------------------------------------------------------


class _Parser(argparse.ArgumentParser):
    """argparse, but an error is one line that suggests what was meant."""

    def error(self, message: str) -> NoReturn:
        wrong = re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message)
        if wrong:
            choices = [choice.strip("' ") for choice in wrong[2].split(",")]
            raise unknown("command" if "COMMAND" in message else "choice", wrong[1], choices)
        raise LabelNoiseError(f"{message} (see {self.prog} --help)")


def _parse(words: Sequence[str]) -> argparse.Namespace:
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
    commands = parser.add_subparsers(metavar="COMMAND", dest="name", required=True)
    made: dict[str, _Parser] = {}

    def command(name: str, function: Any, explains: str) -> _Parser:
        made[name] = commands.add_parser(
            name,
            help=explains,
            description=explains[0].upper() + explains[1:] + ".",
            allow_abbrev=False,
        )
        made[name].set_defaults(command=function)
        made[name].add_argument("--debug", action="store_true", help="show tracebacks")
        return made[name]

    _add_train(command("train", _train, "train a method on data with wrong labels"))

    demo = command("demo", _demo, "train cross-entropy and BARE on half-wrong digits")
    demo.add_argument(
        "--out", type=Path, default=Path("demo"), help="folder for runs and curves (default: demo)"
    )

    inject = command("inject", _inject, "plant wrong labels and write them beside the true ones")
    _add_data(inject)
    inject.add_argument("--noise", required=True, metavar="KIND:RATE", help=_NOISE_HELP)
    inject.add_argument("--seed", type=int, default=0, help="which labels are hit (default: 0)")
    inject.add_argument("--out", type=Path, required=True, help="CSV file to write")
    _add_json(inject)

    predict = command("predict", _predict, "predict labels with a finished run")
    predict.add_argument("run", type=Path, metavar="RUN", help="a run's folder")
    _add_data(predict)
    predict.add_argument("--out", type=Path, required=True, help="CSV file to write")
    _add_json(predict)

    show = command("show", _show, "show runs as a table and as curves")
    show.add_argument(
        "run", type=Path, nargs="+", metavar="RUN", help="folders of runs, or packed runs"
    )
    show.add_argument("--out", type=Path, help="PNG file (default: curves.png in the first run)")
    _add_json(show)

    pack = command("pack", _pack, "keep header and rows of finished runs as small files")
    pack.add_argument("run", type=Path, nargs="+", metavar="RUN", help="folders of runs")
    pack.add_argument("--out", type=Path, required=True, help="folder to write to")

    listing = command("list", _list, "list what there is by name")
    listing.add_argument("what", choices=CATALOGUES, help="which names")
    _add_json(listing)
    return parser, made


_NOISE_HELP = "wrong labels to plant, such as symmetric:0.5 ('labelnoise list noises')"


def _add_train(train: _Parser) -> None:
    _add_data(train)
    train.add_argument(
        "--method", default="bare", help="'labelnoise list methods' (default: %(default)s)"
    )
    train.add_argument("--noise", default="none", metavar="KIND:RATE", help=_NOISE_HELP)
    train.add_argument(
        "--net",
        default="auto",
        help="'labelnoise list nets', or your own package.module:name (default: %(default)s)",
    )
    train.add_argument(
        "--preset", default="recommended", help="'labelnoise list presets' (default: %(default)s)"
    )
    train.add_argument("--epochs", type=int, help="default: the preset's")
    train.add_argument("--batch-size", type=int, help="default: the preset's, 128")
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
    train.add_argument("--device", default="auto", help="auto, cpu, cuda or mps (default: auto)")
    _add_json(train)


def _add_data(command: _Parser) -> None:
    command.add_argument("data", metavar="DATA", help="a name ('labelnoise list datasets') or file")
    command.add_argument("--data-dir", type=Path, help="where data sets are (or LABELNOISE_DATA)")


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


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of numbers like 1,100") from None
