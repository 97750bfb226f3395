"""Every kind of noise by the word that asks for it, and every way to ask wrongly."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from labelnoise.errors import LabelNoiseError
from labelnoise.noise import (
    KINDS,
    Noise,
    NotDominantWarning,
    class_conditional,
    corrupt,
    instance_dependent,
    named,
    pair,
    parse,
    realised,
    symmetric,
    symmetric_inclusive,
)

RATE_KINDS = ["symmetric", "symmetric-inclusive", "class-conditional", "pair", "instance"]
FLIPS = {7: 1, 2: 7, 3: 8, 5: 6, 6: 5}
TRUTH = torch.arange(10).repeat(400)
INPUTS = torch.rand(4000, 8, generator=torch.Generator().manual_seed(0))


def stream(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def plant(
    noise: Noise, truth: Tensor = TRUTH, flips: Mapping[int, int] | None = FLIPS, classes: int = 10
) -> Tensor:
    return noise.plant(
        truth, num_classes=classes, inputs=INPUTS[: len(truth)], flips=flips, generator=stream(1)
    )


def test_the_registry() -> None:
    assert list(KINDS) == ["none", *RATE_KINDS, "matrix"]
    for name, kind in KINDS.items():
        assert kind.name == name
        assert kind.usage.partition(":")[0] == name
        assert kind.explains
        assert "\n" not in kind.explains
    assert KINDS["symmetric"].usage == "symmetric:R"


def test_none_gives_a_copy() -> None:
    noise = parse("none")
    given_labels = plant(noise)
    assert (noise.text, noise.rate, noise.planted) == ("none", None, False)
    assert given_labels.equal(TRUTH)
    assert given_labels.data_ptr() != TRUTH.data_ptr()


@pytest.mark.parametrize(
    ("text", "matrix"),
    [
        ("symmetric:0.5", symmetric(0.5, 10)),
        ("symmetric-inclusive:0.5", symmetric_inclusive(0.5, 10)),
        ("class-conditional:0.45", class_conditional(0.45, FLIPS, 10)),
        ("pair:0.4", pair(0.4, 10)),
        ("matrix:mnist-arbitrary", named("mnist-arbitrary")),
        ("matrix:cifar10-arbitrary", named("cifar10-arbitrary")),
    ],
)
def test_each_kind_draws_from_its_matrix(text: str, matrix: Tensor) -> None:
    noise = parse(text)
    assert noise.planted
    assert noise.text == text
    assert plant(noise).equal(corrupt(TRUTH, matrix, stream(1)))


def test_instance_draws_from_its_probabilities() -> None:
    generator = stream(1)
    table = instance_dependent(0.3, 10, truth=TRUTH, inputs=INPUTS, generator=generator)
    given_labels = plant(parse("instance:0.3"))
    assert given_labels.equal(corrupt(TRUTH, table, generator))
    assert realised(TRUTH, given_labels, 10)[0] == pytest.approx(0.3, abs=0.04)


def test_instance_with_as_many_samples_as_classes() -> None:
    truth = torch.tensor([0, 0, 0])  # as transition rows, two of the three would be ignored
    generator = stream(1)
    table = instance_dependent(0.5, 3, truth=truth, inputs=INPUTS[:3], generator=generator)
    expected = corrupt(truth, table, generator, per_sample=True)
    assert plant(parse("instance:0.5"), truth, classes=3).equal(expected)


@pytest.mark.parametrize("name", RATE_KINDS)
@pytest.mark.parametrize(
    ("written", "canonical", "rate"),
    [
        ("0.50", "0.5", 0.5),
        (".3", "0.3", 0.3),
        ("0", "0", 0.0),
        ("-0", "0", 0.0),
        ("1.0", "1", 1.0),
        ("3e-1", "0.3", 0.3),
        (" 0.123456789 ", "0.123456789", 0.123456789),
    ],
)
def test_canonical_text(name: str, written: str, canonical: str, rate: float) -> None:
    noise = parse(f"{name}:{written}")
    assert noise.text == f"{name}:{canonical}"
    assert noise.rate == rate
    assert noise == parse(noise.text)


def test_white_space_around_is_forgiven() -> None:
    assert parse(" symmetric:0.3\n").text == "symmetric:0.3"


@pytest.mark.parametrize("name", RATE_KINDS)
@pytest.mark.parametrize("argument", ["", ":", ":x", ":30%", ":1.5", ":-0.1", ":nan", ":0.1:0.2"])
def test_missing_or_bad_rate(name: str, argument: str) -> None:
    with pytest.raises(LabelNoiseError) as caught:
        parse(name + argument)
    message = str(caught.value)
    assert message.startswith(f"{name} needs a rate in [0, 1]: {name}:0.3")
    got = argument.removeprefix(":")
    assert message.endswith(f", not {got!r}" if got else ":0.3")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("symetric:0.3", "unknown noise 'symetric': did you mean 'symmetric'?"),
        ("Pair:0.3", "unknown noise 'Pair': did you mean 'pair'?"),
        ("asymmetric:0.3", "unknown noise 'asymmetric': did you mean 'symmetric'?"),
        (
            "0.3",
            "unknown noise '0.3': choose from class-conditional, instance, matrix, none, pair, "
            "symmetric, symmetric-inclusive",
        ),
        ("none:0.3", "none takes no rate: write none, not 'none:0.3'"),
        (
            "matrix",
            "matrix needs a file or a known matrix: matrix:FILE, matrix:mnist-arbitrary, "
            "matrix:cifar10-arbitrary",
        ),
        ("matrix:mnist", "unknown matrix 'mnist': did you mean 'mnist-arbitrary'?"),
        ("matrix:no/such.csv", "no/such.csv: No such file or directory"),
    ],
)
def test_asking_wrongly(text: str, message: str) -> None:
    with pytest.raises(LabelNoiseError) as caught:
        parse(text)
    assert str(caught.value) == message


def test_nothing_asked_for() -> None:
    with pytest.raises(LabelNoiseError, match="unknown noise '': choose from"):
        parse("")


def test_class_conditional_without_a_map_names_the_alternatives() -> None:
    with pytest.raises(LabelNoiseError, match=r"use pair:R or matrix:FILE"):
        plant(parse("class-conditional:0.4"), flips=None)


@pytest.mark.parametrize("name", ["m.npy", "run:1 of 2.npy"])
def test_matrix_from_a_file(tmp_path: Path, name: str) -> None:
    np.save(tmp_path / name, symmetric(0.4, 10).numpy())
    noise = parse(f"matrix:{tmp_path / name}")
    assert (noise.text, noise.rate) == (f"matrix:{tmp_path / name}", None)
    assert plant(noise).equal(plant(parse("symmetric:0.4")))


def test_matrix_file_without_an_ending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine").write_text("1")
    with pytest.raises(LabelNoiseError, match=r"^mine: a matrix is a .npy"):
        parse("matrix:mine")


def test_matrix_of_another_size() -> None:
    with pytest.raises(LabelNoiseError, match="for 10 classes, the data has 3"):
        plant(parse("matrix:mnist-arbitrary"), torch.tensor([0, 1, 2]), classes=3)


def test_noise_beyond_the_majority_warns() -> None:
    with pytest.warns(NotDominantWarning, match="class 0 keeps its label with probability 0.4"):
        plant(parse("pair:0.6"))


@pytest.mark.parametrize(
    "text", ["none", "symmetric:0.3", "instance:0.3", "matrix:mnist-arbitrary"]
)
def test_a_noise_travels_to_another_process(text: str) -> None:
    noise = parse(text)
    copy = pickle.loads(pickle.dumps(noise))  # noqa: S301 (our own bytes)
    assert copy == noise
    assert plant(copy).equal(plant(noise))


def test_noises_compare_and_print_by_their_text() -> None:
    assert parse("symmetric:0.30") == parse("symmetric:0.3")
    assert parse("symmetric:0.3") != parse("pair:0.3")
    assert hash(parse("matrix:mnist-arbitrary")) == hash(parse("matrix:mnist-arbitrary"))
    assert repr(parse("pair:0.3")) == "Noise(text='pair:0.3', rate=0.3, planted=True)"
