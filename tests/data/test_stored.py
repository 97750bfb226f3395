from __future__ import annotations

import pickle
import warnings
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import cast

import pytest
import torch
from torch import Tensor

from labelnoise import engine
from labelnoise.data import stored
from labelnoise.data.augment import crop_and_flip
from labelnoise.data.dataset import Dataset
from labelnoise.data.folder import read_folder
from labelnoise.data.scale import SCALES, raw, standardised
from labelnoise.data.stored import FEW, Files, Names, fetch, readable, unread, values, walk
from labelnoise.data.train import Train
from labelnoise.engine import Held, evaluate
from labelnoise.errors import LabelNoiseError
from labelnoise.noise import parse

from .pictures import coloured, noise, save


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Dataset, Dataset]:
    """The same images in memory and in files, enough of them to be read by worker processes."""
    root = coloured(tmp_path_factory.mktemp("tree"), each=100)
    assert len(read_folder(root).labels) > FEW
    return read_folder(root), read_folder(root, memory=0)


def files_of(dataset: Dataset) -> Files:
    return cast(Files, dataset.inputs)


def test_names_are_kept_as_they_are() -> None:
    given = ["a.png", "", "Ёлка/猫.jpg", "b\udcff.png", "a.png"]
    names = Names(given)
    assert len(names) == 5
    assert list(names) == given
    assert list(pickle.loads(pickle.dumps(names))) == given  # noqa: S301
    assert list(Names([])) == []


def test_files_look_like_a_tensor(pair: tuple[Dataset, Dataset]) -> None:
    tensor, files = pair[0].inputs, files_of(pair[1])
    assert isinstance(files, Files)
    assert len(files) == len(tensor) == 300
    for attribute in ("shape", "dtype", "ndim", "device"):
        assert getattr(files, attribute) == getattr(tensor, attribute), attribute
    assert files.numel() == tensor.numel()
    assert files[:0].shape == (0, 3, 16, 16)
    assert files.to("meta").device == torch.device("meta")


def test_rows_of_rows(pair: tuple[Dataset, Dataset]) -> None:
    tensor, files = (dataset.inputs for dataset in pair)
    for rows in (
        torch.tensor([5, 3, 3, 299]),
        torch.arange(300) % 7 == 0,
        slice(10, 40),
        slice(0, 0),
        torch.tensor([], dtype=torch.long),
    ):
        chosen = files[rows]
        assert chosen.shape == tensor[rows].shape
        assert torch.cat(list(walk(chosen, 8))).equal(tensor[rows])
    inner = files[torch.arange(299, -1, -1)][torch.tensor([0, 10])]
    assert values(inner, torch.arange(2)).equal(tensor[[299, 289]])
    assert values(tensor, torch.tensor([2, 1])).equal(tensor[[2, 1]])


def test_a_single_row(pair: tuple[Dataset, Dataset]) -> None:
    tensor, files = (dataset.inputs for dataset in pair)
    for row in (0, 7, -1):
        assert files[row].equal(tensor[row])
    assert files[[3, 1]].shape == (2, 3, 16, 16)
    assert not files.is_floating_point()
    with pytest.raises(IndexError):
        files[300]


def test_chunks_come_in_order(pair: tuple[Dataset, Dataset]) -> None:
    tensor, files = (dataset.inputs for dataset in pair)
    order = torch.randperm(300, generator=torch.Generator().manual_seed(0))
    chunks = torch.split(order, 7)
    pairs = zip(fetch(tensor, chunks), fetch(files, chunks), strict=True)
    assert sum(one.equal(other) for one, other in pairs) == len(chunks)
    for size in (1000, 280, 64):  # the first two are put together from pieces
        whole, streamed = list(walk(tensor, size)), list(walk(files, size))
        assert len(whole) == len(streamed)
        assert all(one.equal(other) for one, other in zip(whole, streamed, strict=True))


def test_where_inputs_lie_does_not_make_another_data_set(pair: tuple[Dataset, Dataset]) -> None:
    memory, files = pair
    assert memory.ids == files.ids
    assert memory.labels.equal(files.labels)
    assert memory.fingerprint.digest() == files.fingerprint.digest()


@pytest.mark.parametrize("scale", SCALES)
def test_the_scaling_is_the_same(pair: tuple[Dataset, Dataset], scale: str) -> None:
    one, other = (SCALES[scale](dataset.inputs) for dataset in pair)
    assert one.shift.equal(other.shift)
    assert one.factor.equal(other.factor)


@pytest.mark.parametrize("views", [1, 2])
def test_batches_are_the_same(pair: tuple[Dataset, Dataset], views: int) -> None:
    walks = []
    for dataset in pair:
        scaling = standardised(dataset.inputs)
        train = Train(dataset.inputs, dataset.labels, scaling, 32, seed=3, augment=crop_and_flip)
        torch.manual_seed(0)
        walks.append([*train.batches(2, views), *train.scan()])
        assert torch.initial_seed() == 0
        walks[-1].append(cast("object", torch.rand(3)))  # type: ignore[arg-type]
    assert walks[0].pop().equal(walks[1].pop())  # type: ignore[attr-defined]  # no chance was used up
    for one, other in zip(*walks, strict=True):
        assert one.index.equal(other.index)
        assert one.labels.equal(other.labels)
        assert one.time == other.time
        assert all(a.equal(b) for a, b in zip(one.views, other.views, strict=True))


def test_trusted_batches_without_end_are_the_same(pair: tuple[Dataset, Dataset]) -> None:
    walks = []
    for dataset in pair:
        rows = torch.arange(0, 300, 10)
        scaling = standardised(dataset.inputs)
        part = Train(dataset.inputs[rows], dataset.labels[rows], scaling, 32, seed=3)
        forever = part.forever(12)
        walks.append([next(forever).inputs for _ in range(7)])
    assert all(one.equal(other) for one, other in zip(*walks, strict=True))


def test_evaluation_is_the_same(pair: tuple[Dataset, Dataset]) -> None:
    def forward(inputs: Tensor) -> Tensor:
        return inputs.mean((2, 3))

    one, other = (evaluate(forward, each.inputs, standardised(each.inputs)) for each in pair)
    assert one.shape == (300, 3)
    assert one.equal(other)


def test_a_file_that_breaks_later_is_left_out(tmp_path: Path) -> None:
    dataset = read_folder(coloured(tmp_path, each=4), memory=0)
    files = files_of(dataset)
    before = torch.cat(list(walk(dataset.inputs, 5)))
    assert readable(dataset.inputs) is None
    (tmp_path / "blue/001.png").unlink()
    (tmp_path / "red/003.png").write_bytes(b"overwritten")
    with pytest.warns(UserWarning, match=r"blue/001.png cannot be read \(No such file") as said:
        found = torch.cat(list(walk(dataset.inputs, 5)))
    assert len(said) == 1
    left = [row for row in range(12) if row not in {1, 11}]
    assert cast(Tensor, readable(dataset.inputs)).nonzero().flatten().tolist() == left
    assert found[left].equal(before[left])
    assert unread(dataset.inputs) == {
        "blue/001.png": "No such file or directory",
        "red/003.png": "no image",
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # said once, of all parts
        part = dataset.inputs[torch.tensor([1, 0])]
        assert values(part, torch.arange(2))[1].equal(before[0])
    assert cast(Files, part).broken is files.broken
    assert cast(Tensor, readable(part)).tolist() == [False, True]
    assert cast(Tensor, readable(part, torch.tensor([1]))).tolist() == [True]


def broken_train(root: Path, rows: int, batch_size: int, bad: set[int]) -> Train:
    """Files of which some break after they were read once; labels are the rows' numbers."""
    for number in range(rows):
        save(root / f"{'ab'[number % 2]}/{number:03d}.png", noise(4, 4, seed=number))
    dataset = read_folder(root, memory=0)
    for row in bad:
        (root / dataset.ids[row]).write_bytes(b"broken")
    return Train(dataset.inputs, torch.arange(rows), raw(dataset.inputs), batch_size, seed=0)


@pytest.mark.filterwarnings("ignore:.*cannot be read")
def test_batches_are_without_what_cannot_be_read(tmp_path: Path) -> None:
    train = broken_train(tmp_path, 20, 4, {3, 8})
    left = {*range(20)} - {3, 8}
    for walk_over in (train.batches(0, 2), train.scan()):
        batches = list(walk_over)
        assert {row for batch in batches for row in batch.index.tolist()} == left
        assert all(len(batch.index) == len(batch.inputs) == len(batch.labels) for batch in batches)
        assert all(batch.labels.equal(batch.index) for batch in batches)
        assert all(batch.inputs.flatten(1).any(1).all() for batch in batches)


@pytest.mark.filterwarnings("ignore:.*cannot be read")
def test_a_batch_of_which_nothing_or_one_row_is_left_is_no_batch(tmp_path: Path) -> None:
    train = broken_train(tmp_path, 12, 4, {0, 1, 2, 3, 4, 5, 6})
    assert [batch.index.tolist() for batch in train.scan()] == [[8, 9, 10, 11]]
    forever = train.forever(4)
    drawn = [next(forever).index for _ in range(9)]
    assert all(len(index) > 1 and int(index.min()) > 6 for index in drawn)
    forever.load_state_dict({"drawn": 0})
    assert all(next(forever).index.equal(index) for index in drawn)


@pytest.mark.filterwarnings("ignore:.*cannot be read")
def test_of_several_processes_each_takes_part_in_every_step(tmp_path: Path) -> None:
    """Even without a row: the others wait for it."""
    train = broken_train(tmp_path, 12, 2, {0, 1, 2, 3, 4, 5, 6})
    shares = [replace(train, rank=rank, world=2) for rank in (0, 1)]
    for epoch in range(3):
        steps = list(zip(*(share.batches(epoch) for share in shares), strict=True))
        assert len(steps) == 3
        sizes = [len(batch.index) for step in steps for batch in step]
        assert 0 in sizes
        assert 1 not in sizes  # it has no variance
        for batch in (batch for step in steps for batch in step):
            assert batch.inputs.shape == (len(batch.index), 3, 4, 4)
            assert all(int(row) > 6 for row in batch.index)


@pytest.mark.filterwarnings("ignore:.*cannot be read")
def test_a_process_without_a_row_of_a_trusted_set_goes_on(tmp_path: Path) -> None:
    train = broken_train(tmp_path, 4, 4, {0})
    shares = [replace(train, rank=rank, world=2).forever(4) for rank in (0, 1)]
    assert [len(next(share).index) for share in shares for _ in range(2)] == [0, 0, 2, 2]


@pytest.mark.filterwarnings("ignore:.*cannot be read")
def test_without_any_image_there_is_nothing_to_train_on(tmp_path: Path) -> None:
    train = broken_train(tmp_path, 6, 4, {*range(6)})
    walks = (train.batches(0), train.scan(), train.forever(2), train.forever(6))
    for walk_over in (*walks, replace(train, batch_size=1, world=2).batches(0)):
        with pytest.raises(LabelNoiseError, match=r"none of the images can be read: .* \(no image"):
            list(islice(walk_over, 9))


@pytest.mark.filterwarnings("ignore:.*cannot be read")
def test_evaluation_leaves_out_what_cannot_be_read(tmp_path: Path) -> None:
    train = broken_train(tmp_path, 6, 4, {2, 5})
    labels = torch.tensor([0, 1, 1, 0, 1, 0])
    held = Held(train.inputs, labels)
    scores = torch.nn.functional.one_hot(torch.tensor([0, 1, 0, 0, 1, 1])).float()
    list(walk(train.inputs, 4))
    found, right = engine._read(held, scores)
    assert found.equal(scores[[0, 1, 3, 4]])
    assert right.tolist() == [0, 1, 0, 1]


def test_a_file_that_breaks_does_not_end_the_workers(tmp_path: Path) -> None:
    for number in range(300):
        save(tmp_path / f"{'ab'[number % 2]}/{number}.png", noise(4, 4, seed=number))
    dataset = read_folder(tmp_path, memory=0)
    (tmp_path / "a/100.png").unlink()
    with pytest.warns(UserWarning, match=r"a/100.png cannot be read"):
        found = torch.cat(list(walk(dataset.inputs, 16)))
    assert len(found) == 300
    assert int(cast(Tensor, readable(dataset.inputs)).sum()) == 299


@pytest.mark.parametrize("shares", [True, False])
def test_pixels_come_by_shared_memory_or_by_a_pipe(
    pair: tuple[Dataset, Dataset], monkeypatch: pytest.MonkeyPatch, shares: bool
) -> None:
    """The second is the way where workers are no copies of this process."""
    monkeypatch.setattr(stored, "copies", lambda: shares)
    monkeypatch.setattr(stored, "PIECE", 5)  # many more pieces than there is shared memory for
    tensor, files = (dataset.inputs for dataset in pair)
    assert torch.cat(list(walk(files, 13))).equal(tensor)


@pytest.mark.parametrize("lasting", [True, False])
def test_who_is_done_with_pixels_gets_the_next_ones_in_their_place(
    pair: tuple[Dataset, Dataset], lasting: bool
) -> None:
    tensor, files = (dataset.inputs for dataset in pair)
    chunks = [torch.arange(8), torch.arange(50, 53), torch.arange(60, 80), torch.arange(5)]
    places = []
    for chunk, found in zip(chunks, fetch(files, chunks, lasting=lasting), strict=True):
        assert found.equal(tensor[chunk])
        places.append(found)  # none is freed, so that no place is given out twice by chance
    addresses = [place.data_ptr() for place in places]
    assert len(set(addresses)) == (4 if lasting else 2)  # the third needs a larger one
    if lasting:
        assert all(p.equal(tensor[chunk]) for p, chunk in zip(places, chunks, strict=True))


def test_workers_have_parts_of_one_size(pair: tuple[Dataset, Dataset]) -> None:
    """They have turns: with 42 and 22 of every 64 images, one would wait for the other."""
    for rows, most, sizes in ((64, 42, [32, 32]), (64, 21, [16] * 4), (5, 4, [3, 2]), (0, 4, [0])):
        parts = stored._evenly(torch.arange(rows), most)
        assert [len(part) for part in parts] == sizes
        assert torch.cat(list(parts)).equal(torch.arange(rows))


def test_instance_noise_needs_inputs_in_memory(pair: tuple[Dataset, Dataset]) -> None:
    def plant(dataset: Dataset, noise: str) -> Tensor:
        return parse(noise).plant(
            dataset.labels,
            num_classes=3,
            inputs=dataset.inputs,
            flips=None,
            generator=torch.Generator().manual_seed(0),
        )

    with pytest.raises(LabelNoiseError, match=r"do not fit in memory: take fewer \(DATA:rows=N\)"):
        plant(pair[1], "instance:0.3")
    assert plant(pair[0], "symmetric:0.3").equal(plant(pair[1], "symmetric:0.3"))
