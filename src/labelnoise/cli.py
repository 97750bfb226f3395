"""The command line: parses, calls, prints.

Nothing heavy is imported before it is needed, so that `--help` answers at once.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from labelnoise.arguments import parse
from labelnoise.errors import LabelNoiseError

if TYPE_CHECKING:
    from argparse import Namespace

    from rich.console import Console

INTERRUPTED = 130  # what a shell reports for Ctrl-C
DEMO_EPOCHS = 200  # the paper's number, and enough for cross-entropy to memorise wrong labels


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit status."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        options = parse(words)
        COMMANDS[options.name](options)
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


def _train(options: Namespace) -> None:
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


def _demo(options: Namespace) -> None:
    from labelnoise.experiment.figure import draw_curves

    runs = []
    for method in ("cce", "bare"):
        words = ["train", "digits", "--method", method, "--noise", "symmetric:0.5"]
        each = parse([*words, "--out", str(options.out)])
        runs.append(_train_with_progress(each, {"epochs": DEMO_EPOCHS}))
    _show_runs(runs)
    draw_curves(runs, options.out / "curves.png")
    print(f"curves: {options.out / 'curves.png'}")


def _inject(options: Namespace) -> None:
    from labelnoise.data import read
    from labelnoise.noise import parse as parse_noise
    from labelnoise.noise import realised
    from labelnoise.record.run import write_atomically
    from labelnoise.seeds import stream

    noise, dataset = parse_noise(options.noise), read(options.data, options.data_dir)
    with _warnings_on_one_line():
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


def _predict(options: Namespace) -> None:
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


def _show(options: Namespace) -> None:
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


def _pack(options: Namespace) -> None:
    from labelnoise.record.run import Run, pack

    for path in options.run:
        print(pack(Run(path), options.out))


def _list(options: Namespace) -> None:
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


COMMANDS = {
    "train": _train,
    "demo": _demo,
    "inject": _inject,
    "predict": _predict,
    "show": _show,
    "pack": _pack,
    "list": _list,
}


# --- what they share ------------------------------------------------------------------------------


def _train_with_progress(options: Namespace, changes: dict[str, Any]) -> Any:
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
