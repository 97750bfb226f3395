"""The command line: parses, calls, prints.

Nothing heavy is imported before it is needed, so that `--help` answers at once.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from labelnoise.arguments import parse
from labelnoise.errors import LabelNoiseError

if TYPE_CHECKING:
    from argparse import Namespace
    from pathlib import Path

    from rich.console import Console

    from labelnoise.data import Columns
    from labelnoise.record.run import Run

SPINS = "1000"
FAILED = 1  # by an error that nobody foresaw
INTERRUPTED = 130  # what a shell reports for Ctrl-C
WIDEST = 20  # classes; a larger matrix is for --json
LARGE = ("accumulate", "precision", "scope")  # fields of a training with options of their own
GROUPED = ("train",)  # commands that several processes may run together
DEMO_EPOCHS = 200  # the paper's number, and enough for cross-entropy to memorise wrong labels


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit status."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    # Before torch comes in: threads that wait for each other spin for milliseconds by default,
    # which made a small training on busy cores ten times as slow.
    os.environ.setdefault("GOMP_SPINCOUNT", SPINS)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal without the letters of a file's name
            stream.reconfigure(errors="replace")
    try:
        options = parse(words)
        with _group(options):
            status = COMMANDS[options.name](options)
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
        return _complain(f"{type(error).__name__}: {what} (--debug shows where)", FAILED)
    return status or 0


def _complain(message: str, status: int) -> int:
    if _speaks():
        print(f"labelnoise: {message}", file=sys.stderr)
    return status


def _speaks() -> bool:
    """Whether it is for this process to say what went wrong; of several one alone does."""
    if os.environ.get("WORLD_SIZE", "1") == "1":
        return True
    from labelnoise import dist

    return dist.first_to_fail()


def _silent() -> bool:
    """Whether this is one of several processes, and not the first, which speaks for all."""
    return os.environ.get("RANK", "0") != "0" and os.environ.get("WORLD_SIZE", "1") != "1"


@contextlib.contextmanager
def _group(options: Namespace) -> Iterator[None]:
    """Where the processes that torchrun started work together; one alone needs no torch for it."""
    if os.environ.get("WORLD_SIZE", "1") == "1":
        yield
        return
    if options.name not in GROUPED:
        raise LabelNoiseError(
            f"{options.name!r} runs in one process: start it without torchrun, which is for "
            f"{' and '.join(GROUPED)}"
        )
    import torch

    from labelnoise import dist
    from labelnoise.experiment.run import device_named

    try:
        device = device_named(options.device)
    except LabelNoiseError:  # which is said when all have met: the others may have theirs
        device = torch.device("cpu")
    with dist.group(device):
        yield


# --- commands -------------------------------------------------------------------------------------


def _audit(options: Namespace) -> None:
    from labelnoise.audit.audit import audit_labels
    from labelnoise.audit.table import worst_table
    from labelnoise.experiment.machine import keep_memory, use_all_cores
    from labelnoise.experiment.progress import Progress

    use_all_cores()
    keep_memory()
    with Progress() as progress, _warnings_on_one_line():
        done = audit_labels(
            options.data,
            out=options.out,
            label=options.label,
            image=options.image,
            text=options.text,
            noise=options.noise,
            net=options.net,
            epochs=options.epochs,
            batch_size=options.batch_size,
            seed=options.seed,
            data_seed=options.data_seed,
            data_dir=options.data_dir,
            device=options.device,
            watch=progress,
        )
    if not progress.begun:
        print(f"already finished, shown from {done.folder}", file=sys.stderr)
    if options.json:
        print(json.dumps(done.summary()))
        return
    if done.findings.issue.any():
        _console().print(worst_table(done.findings))
    for line in done.in_words():
        print(line)


def _train(options: Namespace) -> None:
    run = _train_with_progress(options)
    if _silent():
        return
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
        words += ["--epochs", str(DEMO_EPOCHS), "--out", str(options.out)]
        runs.append(_train_with_progress(parse(words)))
    _show_runs(runs)
    draw_curves(runs, options.out / "curves.png")
    print(f"curves: {options.out / 'curves.png'}")


def _reproduce(options: Namespace) -> int:
    from pathlib import Path

    from labelnoise.experiment.display import LiveDisplay
    from labelnoise.experiment.present import lines_of, present, tables_of
    from labelnoise.experiment.reproduce import execute, plan, results

    with _warnings_on_one_line():
        experiment, jobs = plan(
            options.experiment,
            trials=options.trials,
            epochs=options.epochs,
            methods=options.methods,
            only=dict(options.only or []),
            out=options.out,
            data_dir=options.data_dir,
            to_train=options.jobs != 0,
        )
    if options.jobs != 0 and any(job.pending for job in jobs):
        tables = LiveDisplay(lambda: tables_of(experiment, results(jobs)))
        with tables as display, _warnings_on_one_line():
            execute(
                jobs,
                workers=options.jobs,
                out=options.out,
                data_dir=options.data_dir,
                display=display,
                cluster=options.cluster,
            )
    failed = [job for job in jobs if job.failed]
    part = "-part" if options.methods or options.only else ""  # the whole one's files are kept
    stem = options.out / (Path(options.experiment).stem + part)
    written = present(experiment, results(jobs), stem)
    if options.json:
        shown = [line.as_dict() for line in lines_of(experiment, results(jobs))]
        reasons = {job.name: job.failed for job in failed}
        report = {"experiment": options.experiment, "lines": shown, "failed": reasons}
        print(json.dumps({**report, "files": [str(path) for path in written]}))
    else:
        for table in tables_of(experiment, results(jobs)):
            _console().print(table)
        print("written: " + (", ".join(str(path) for path in written) or "nothing yet, no run"))
    for reason in dict.fromkeys(job.failed for job in failed):
        names = [job.name for job in failed if job.failed == reason]
        which = names[0] if len(names) == 1 else f"{len(names)} runs, from {names[0]} on"
        print(f"labelnoise: failed: {which}: {reason}", file=sys.stderr)
    return 1 if failed else 0


def _inject(options: Namespace) -> None:
    from labelnoise.data import read
    from labelnoise.noise import parse as parse_noise
    from labelnoise.noise import realised
    from labelnoise.record.csvfile import write_csv
    from labelnoise.seeds import stream

    noise = parse_noise(options.noise)
    with _warnings_on_one_line():
        dataset = read(options.data, options.data_dir, _columns(options))
        given = noise.plant(
            dataset.labels,
            num_classes=len(dataset.classes),
            inputs=dataset.inputs,
            flips=dataset.flips,
            generator=stream(options.seed, "noise", "inject"),
        )
    names, ids = dataset.classes, dataset.ids or range(len(given))
    pairs = zip(ids, dataset.labels.tolist(), given.tolist(), strict=True)
    lines = ((row, names[truth], names[label]) for row, truth, label in pairs)
    write_csv(options.out, ("row", "true_label", "given_label"), lines)
    rate, transition = realised(dataset.labels, given, len(names))
    if options.json:
        report = {"noise": noise.text, "rate": rate, "transition": transition.tolist()}
        print(json.dumps({**report, "rows": len(given), "out": str(options.out)}))
        return
    if len(names) <= WIDEST:
        _console().print(_transition_table(names, transition.tolist()))
    print(f"{len(given)} labels, {100 * rate:.2f} % of them wrong: {options.out}")


def _predict(options: Namespace) -> None:
    from labelnoise.data.stored import readable
    from labelnoise.experiment.predict import Predictor, inputs_of
    from labelnoise.record.csvfile import write_csv

    predictor = Predictor(options.run)
    with _warnings_on_one_line():
        inputs, labels, ids = inputs_of(
            options.data, predictor.known, options.data_dir, _columns(options)
        )
        confidence, predicted = predictor.probs(inputs).max(dim=1)
    names: Sequence[object] = ids or range(len(predicted))
    if (kept := readable(inputs)) is not None:  # of what cannot be read nothing is predicted
        names = [names[row] for row in kept.nonzero()[:, 0].tolist()]
        confidence, predicted = confidence[kept], predicted[kept]
        labels = None if labels is None else labels[kept]
    triples = zip(names, predicted.tolist(), confidence.tolist(), strict=True)
    lines = ((row, predictor.classes[label], f"{sure:.6f}") for row, label, sure in triples)
    write_csv(options.out, ("row", "predicted_label", "confidence"), lines)
    agreement = None
    if labels is not None:
        labelled = labels >= 0
        agreement = float((predicted == labels)[labelled].double().mean())
    if options.json:
        report = {"rows": len(predicted), "accuracy": agreement, "out": str(options.out)}
        print(json.dumps(report))
        return
    agrees = "" if agreement is None else f", {100 * agreement:.2f} % as labelled"
    print(f"{len(predicted)} predictions{agrees}: {options.out}")


def _show(options: Namespace) -> None:
    runs = _runs(options.run)
    if options.json:
        print(json.dumps([run.summary() for run in runs]))
        return
    from labelnoise.experiment.figure import draw_curves

    _show_runs(runs)
    picture = options.out or runs[0].path.resolve().parent / "curves.png"
    with _warnings_on_one_line():
        draw_curves(runs, picture)
    print(f"curves: {picture}")


def _compare(options: Namespace) -> None:
    from labelnoise.experiment.compare import compared
    from labelnoise.experiment.compare_table import comparison_tables

    comparison = compared(_runs(options.run))
    if options.json:
        print(json.dumps(comparison.as_dict()))
        return
    for table in comparison_tables(comparison):
        _console().print(table)


def _report(options: Namespace) -> None:
    from labelnoise.experiment.report import write_report

    page = options.out or options.folder / "report.html"
    count = write_report(options.folder, page)
    print(f"{count} run{'' if count == 1 else 's'}: {page}")


def _apply(options: Namespace) -> None:
    from labelnoise.audit.apply import apply, undo

    if options.undo:
        made = options.out if options.undo is True else options.undo
        if made is None:
            raise LabelNoiseError("name what is to be undone: labelnoise apply --undo NEW")
        count = undo(made)
        report = {"undone": str(made), "files": count}
        print(json.dumps(report) if options.json else f"removed {made}, files: {count}")
        return
    if not (options.folder and options.decisions and options.out):
        raise LabelNoiseError("apply needs DIR, DECISIONS and --out NEW (see labelnoise apply -h)")
    with _warnings_on_one_line():
        done = apply(
            options.folder,
            options.decisions,
            options.out,
            link=options.link,
            data_dir=options.data_dir,
        )
    if done.planted:
        print(
            f"labelnoise: warning: noise was planted to try the audit out ({done.planted} labels); "
            "the copy has your own labels except where you decided",
            file=sys.stderr,
        )
    if options.json:
        files = {"out": str(done.out), "changes": str(done.changes)}
        print(json.dumps({**done.counts, "changed": done.changed, **files}))
        return
    counts = done.counts
    print(f"{counts['relabel']} relabelled, {counts['bad']} left out, {counts['keep']} kept")
    if done.planted:  # a label that was put right is what the data say already
        print(f"labels that differ from the data: {done.changed}")
    print(f"labels: {done.out}")
    print(f"changes: {done.changes}")


def _export(options: Namespace) -> None:
    from labelnoise.audit.export import export

    count = export(
        options.folder,
        options.to,
        options.out,
        decisions=options.decisions,
        data_dir=options.data_dir,
    )
    report = {"samples": count, "to": options.to, "out": str(options.out)}
    print(json.dumps(report) if options.json else f"{count} samples: {options.out}")


def _doctor(options: Namespace) -> None:
    from labelnoise.experiment.doctor import lines_of_data, lines_of_machine, machine, understood

    found: dict[str, Any] = {"machine": machine(options.out)}
    if not options.json:  # what is wrong with the data should not hide it
        print("\n".join(lines_of_machine(found["machine"])), flush=True)
    if options.data is not None:
        with _warnings_on_one_line():
            found["data"] = understood(options.data, options.data_dir, _columns(options))
    if options.json:
        print(json.dumps(found))
    elif options.data is not None:
        print("\n".join(lines_of_data(found["data"])))


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
    from labelnoise.experiment.grid import experiments
    from labelnoise.experiment.spec import presets
    from labelnoise.methods import METHODS
    from labelnoise.nets import NETS
    from labelnoise.noise import KINDS, NAMED

    catalogues: dict[str, list[tuple[str, str]]] = {
        "methods": [(name, _first_line(method)) for name, method in METHODS.items()],
        "experiments": [(name, one.explains) for name, one in experiments().items()],
        "datasets": [(name, source.explains) for name, source in DATASETS.items()],
        "nets": [(name, net.explains) for name, net in NETS.items()],
        "noises": [
            *((kind.usage, kind.explains) for kind in KINDS.values()),
            *((f"matrix:{name}", "the paper's matrix of that name") for name in NAMED),
        ],
        "presets": [(name, preset["explains"]) for name, preset in presets().items()],
    }
    return catalogues[what]


def _first_line(thing: object) -> str:
    return (thing.__doc__ or "").strip().splitlines()[0]


COMMANDS: dict[str, Callable[[Namespace], int | None]] = {
    "audit": _audit,
    "train": _train,
    "demo": _demo,
    "reproduce": _reproduce,
    "inject": _inject,
    "predict": _predict,
    "show": _show,
    "compare": _compare,
    "report": _report,
    "apply": _apply,
    "export": _export,
    "doctor": _doctor,
    "pack": _pack,
    "list": _list,
}


# --- what they share ------------------------------------------------------------------------------


def _train_with_progress(options: Namespace) -> Any:
    from labelnoise.experiment.machine import keep_memory, use_all_cores
    from labelnoise.experiment.progress import Progress
    from labelnoise.experiment.run import train

    use_all_cores()
    keep_memory()
    progress = Progress()
    watchers: list[Any] = [] if _silent() else [progress]
    if options.tensorboard and not _silent():
        from labelnoise.adapters.tensorboard import TensorBoard

        watchers.append(TensorBoard(options.out))

    def watch(spec: Any, row: Any) -> None:
        for watcher in watchers:
            watcher(spec, row)

    with contextlib.ExitStack() as stack, _warnings_on_one_line():
        for watcher in watchers:
            stack.enter_context(watcher)
        run = train(
            options.data,
            label=options.label,
            image=options.image,
            text=options.text,
            method=options.method,
            noise=options.noise,
            noise_rate=options.noise_rate,
            trusted=options.trusted,
            net=options.net,
            weights=options.weights,
            preset=options.preset,
            epochs=options.epochs,
            batch_size=options.batch_size,
            classes_per_batch=options.classes_per_batch,
            changes={**dict(options.set or []), **_asked(options, *LARGE)},
            trace=options.trace_epochs,
            seed=options.seed,
            data_seed=options.data_seed,
            out=options.out,
            data_dir=options.data_dir,
            device=options.device,
            watch=watch,
        )
    if not progress.begun and not _silent():
        print(f"already finished, shown from {run.path}", file=sys.stderr)
    return run


def _asked(options: Namespace, *names: str) -> dict[str, Any]:
    """The options that were given, by name."""
    given = {name: getattr(options, name) for name in names}
    return {name: value for name, value in given.items() if value is not None}


def _columns(options: Namespace) -> Columns:
    from labelnoise.data import Columns

    return Columns(options.label, options.image, options.text)


def _runs(paths: Sequence[Path]) -> list[Run]:
    """The runs among what a shell makes of `runs/*`; tables and pictures beside them are none."""
    from labelnoise.record.run import PACKED, Run

    found = [path for path in paths if not path.is_file() or path.name.endswith(PACKED)]
    return [Run(path) for path in found or paths]


def _show_runs(runs: list[Any]) -> None:
    from labelnoise.experiment.table import runs_table

    _console().print(runs_table(runs))


def _console() -> Console:
    """Standard output; a table is never cut off when it is piped."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else 100_000
    return Console(width=width, markup=False, emoji=False, highlight=False)


@contextlib.contextmanager
def _warnings_on_one_line() -> Iterator[None]:
    import warnings

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        if not _silent():
            print(f"labelnoise: warning: {message}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.simplefilter("once", UserWarning)
        warnings.showwarning = show
        yield


def _transition_table(names: Sequence[str], transition: list[list[float]]) -> Any:
    from rich.table import Table

    table = Table(title="realised transition, in percent")
    for heading in ("true \\ given", *names):
        table.add_column(heading, overflow="fold")
    for name, row in zip(names, transition, strict=True):
        table.add_row(name, *(f"{100 * value:.2f}" for value in row))
    return table
