from __future__ import annotations

import io
from collections import Counter
from itertools import islice

import pytest
import torch
from torch import Tensor

from labelnoise.batch import Batch
from labelnoise.data.scale import SCALES, raw, standardised, unit
from labelnoise.data.train import Train


def rows_of(batches: list[Batch]) -> list[int]:
    return torch.cat([batch.index for batch in batches]).tolist()


def made(rows: int = 23, batch_size: int = 5, seed: int = 0, **more: object) -> Train:
    """Every feature of row i holds the number i, so that a batch shows where it comes from."""
    inputs = torch.arange(rows, dtype=torch.float32)[:, None].repeat(1, 3)
    return Train(inputs, torch.arange(rows) % 4, raw(inputs), batch_size, seed, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("rows", [1, 2, 4, 5, 6, 11, 23, 25, 26])
@pytest.mark.parametrize("batch_size", [1, 2, 5, 100])
def test_every_row_comes_exactly_once_an_epoch(rows: int, batch_size: int) -> None:
    train = made(rows, batch_size)
    for epoch in range(3):
        assert sorted(rows_of(list(train.batches(epoch)))) == list(range(rows))
    assert len(train) == rows


def test_inputs_labels_and_index_belong_together() -> None:
    train = made()
    for batch in train.batches(0):
        assert batch.inputs[:, 0].tolist() == batch.index.tolist()
        assert batch.labels.tolist() == (batch.index % 4).tolist()


def test_the_order_depends_on_seed_and_epoch_alone() -> None:
    orders = {
        (seed, epoch): tuple(rows_of(list(made(seed=seed).batches(epoch))))
        for seed in (0, 1)
        for epoch in (0, 1)
    }
    assert len(set(orders.values())) == 4
    train = made(seed=0)
    torch.manual_seed(5)
    assert tuple(rows_of(list(train.batches(1)))) == orders[0, 1]  # without epoch 0 before it
    assert tuple(rows_of(list(made(batch_size=7).batches(1, views=2)))) == orders[0, 1]


def test_the_order_is_random() -> None:
    order = torch.tensor(rows_of(list(made(rows=1_000, batch_size=100).batches(0))))
    assert order.tolist() != list(range(1_000))
    assert (
        abs(
            float(
                torch.corrcoef(torch.stack([order.double(), torch.arange(1_000.0).double()]))[0, 1]
            )
        )
        < 0.15
    )


@pytest.mark.parametrize(
    ("rows", "batch_size", "sizes"),
    [
        (10, 5, [5, 5]),
        (11, 5, [5, 6]),
        (12, 5, [5, 5, 2]),
        (6, 5, [6]),
        (1, 5, [1]),
        (3, 1, [1, 1, 1]),
        (5, 2, [2, 3]),
    ],
)
def test_a_last_single_row_joins_the_batch_before(
    rows: int, batch_size: int, sizes: list[int]
) -> None:
    found = [len(batch.index) for batch in made(rows, batch_size).batches(0)]
    assert found == sizes


def test_time_is_the_fraction_of_epochs_elapsed() -> None:
    times = [batch.time for batch in made(rows=20).batches(3)]
    assert times == pytest.approx([3.0, 3.25, 3.5, 3.75])


def test_chosen_rows_are_the_only_ones() -> None:
    chosen = torch.tensor([3, 9, 1, 20, 17, 5])
    batches = list(made().batches(0, rows=chosen))
    assert sorted(rows_of(batches)) == sorted(chosen.tolist())
    assert rows_of(batches) != chosen.tolist()
    assert all(batch.inputs[:, 0].tolist() == batch.index.tolist() for batch in batches)


def test_batches_may_have_few_classes() -> None:
    train = made(rows=48, batch_size=8, classes_per_batch=2)
    epochs = [list(train.batches(number)) for number in (0, 1)]
    for batches in epochs:
        assert all(len(set(batch.labels.tolist())) == 2 for batch in batches)
        assert all(batch.labels.equal(batch.index % 4) for batch in batches)
        assert sorted(rows_of(batches)) == list(range(48))
    assert rows_of(epochs[0]) != rows_of(epochs[1])
    assert rows_of(list(train.batches(1))) == rows_of(epochs[1])  # without epoch 0 before it


def test_chosen_rows_are_the_only_ones_with_few_classes_too() -> None:
    chosen = torch.tensor([3, 9, 1, 20, 17, 5])  # of classes 3, 1, 1, 0, 1, 1
    train = made(batch_size=4, classes_per_batch=2)
    batches = list(train.batches(0, rows=chosen))
    assert set(rows_of(batches)) <= set(chosen.tolist())
    assert Counter(torch.cat([b.labels for b in batches]).tolist()) == {0: 2, 1: 2, 3: 2}


def test_forever_has_batches_of_any_class() -> None:
    few = made(rows=20, classes_per_batch=2)
    assert rows_of(drawn(few, 7, 6)) == rows_of(drawn(made(rows=20), 7, 6))


def jitter(images: Tensor, generator: torch.Generator) -> Tensor:
    return images + torch.rand(len(images), 1, generator=generator)


def test_every_view_is_augmented_by_itself() -> None:
    train = made(augment=jitter)
    for batch in train.batches(0, views=3):
        assert len(batch.views) == 3
        assert batch.inputs is batch.views[0]
        shifts = torch.stack([view[:, 0] - batch.index for view in batch.views])
        assert ((shifts > -1e-4) & (shifts < 1 + 1e-4)).all()
        assert not torch.allclose(shifts[0], shifts[1])
        assert not torch.allclose(shifts[1], shifts[2])


def test_augmentations_depend_on_seed_and_epoch_alone() -> None:
    def shifts(seed: int, epoch: int) -> Tensor:
        batches = made(seed=seed, augment=jitter).batches(epoch)
        return torch.cat([batch.inputs[:, 0] - batch.index for batch in batches])

    assert shifts(0, 1).equal(shifts(0, 1))
    assert not torch.allclose(shifts(0, 1), shifts(0, 2), atol=1e-3)
    assert not torch.allclose(shifts(0, 1), shifts(1, 1), atol=1e-3)


def test_without_augmentation_all_views_are_alike_and_none_shares_memory() -> None:
    for batch in made().batches(0, views=2):
        one, other = batch.views
        assert one.equal(other)
        assert one.data_ptr() != other.data_ptr()


def test_the_scan_is_in_order_and_not_augmented() -> None:
    train = made(augment=jitter)
    batches = list(train.scan())
    assert rows_of(batches) == list(range(23))
    assert [len(batch.index) for batch in batches] == [5, 5, 5, 5, 3]
    assert torch.cat([batch.inputs for batch in batches]).equal(train.inputs)
    assert torch.cat([batch.labels for batch in batches]).equal(train.labels)
    assert [len(batch.index) for batch in train.scan(batch_size=20)] == [20, 3]


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.float64])
def test_the_stored_inputs_never_change(dtype: torch.dtype, scale: str) -> None:
    chance = torch.Generator().manual_seed(0)
    inputs = torch.randint(256, (12, 3, 2, 2), generator=chance).to(dtype)
    labels = torch.arange(12) % 3
    before = inputs.clone(), labels.clone()
    train = Train(inputs, labels, SCALES[scale](inputs), batch_size=12, seed=0)
    for batch in (*train.batches(0, views=2), *train.scan()):
        for view in batch.views:
            view.zero_()
        batch.labels.zero_()
        batch.index.zero_()
    assert inputs.equal(before[0])
    assert labels.equal(before[1])


def test_batches_are_scaled() -> None:
    inputs = torch.arange(36, dtype=torch.uint8).view(12, 3)
    for scale in (unit, standardised):
        train = Train(inputs, torch.zeros(12, dtype=torch.long), scale(inputs), 12, seed=0)
        (batch,) = train.batches(0)
        assert batch.inputs.equal(scale(inputs)(inputs[batch.index]))
        assert batch.inputs.dtype == torch.float32


# --- without end ----------------------------------------------------------------------------------


def drawn(train: Train, batch_size: int, count: int) -> list[Batch]:
    return list(islice(train.forever(batch_size), count))


@pytest.mark.parametrize(
    ("rows", "batch_size", "sizes"),
    [
        (10, 5, [5, 5]),
        (12, 5, [5, 5, 2]),
        (11, 5, [5, 6]),  # a last single row joins the batch before
        (6, 5, [6]),
        (5, 5, [5]),
        (3, 100, [3]),
        (1, 100, [1]),
        (4, 1, [1, 1, 1, 1]),
        (3, 2, [3]),
    ],
)
@pytest.mark.parametrize("augmented", [False, True])
def test_forever_goes_over_all_rows_again_and_again(
    rows: int, batch_size: int, sizes: list[int], augmented: bool
) -> None:
    train = made(rows, augment=jitter if augmented else None)
    batches = drawn(train, batch_size, 4 * len(sizes))
    assert [len(batch.index) for batch in batches] == 4 * sizes
    for start in range(0, len(batches), len(sizes)):
        once = batches[start : start + len(sizes)]
        assert sorted(rows_of(once)) == list(range(rows))
    for batch in batches:
        assert batch.labels.equal(batch.index % 4)
        assert batch.inputs[:, 0].floor().long().equal(batch.index)


def test_forever_has_its_own_batch_size_and_the_parts_order() -> None:
    train = made(rows=20, batch_size=3)
    batches = drawn(train, 7, 6)
    expected = [batch for epoch in (0, 1) for batch in made(20, batch_size=7).batches(epoch)]
    assert [batch.index.tolist() for batch in batches] == [b.index.tolist() for b in expected]
    assert train.batch_size == 3


def test_forever_orders_every_pass_anew() -> None:
    passes = [tuple(rows_of(drawn(made(rows=40), 8, 20)[5 * k : 5 * k + 5])) for k in range(4)]
    assert len(set(passes)) == 4


def test_a_whole_set_without_augmentation_is_made_once() -> None:
    first, second, third = drawn(made(), 100, 3)
    assert first is second is third
    assert first.index.tolist() == list(range(23))


def test_a_whole_set_with_augmentation_is_made_anew() -> None:
    shifts = []
    for batch in drawn(made(augment=jitter), 100, 3):
        order = batch.index.argsort()
        shifts.append((batch.inputs[:, 0] - batch.index)[order])
    assert not torch.allclose(shifts[0], shifts[1], atol=1e-3)
    assert not torch.allclose(shifts[1], shifts[2], atol=1e-3)


@pytest.mark.parametrize("augmented", [False, True])
@pytest.mark.parametrize(
    ("rows", "batch_size"), [(10, 4), (11, 5), (6, 6), (6, 5), (3, 50), (4, 1)]
)
def test_forever_goes_on_from_every_position(rows: int, batch_size: int, augmented: bool) -> None:
    train = made(rows, augment=jitter if augmented else None)
    whole = drawn(train, batch_size, 16)
    for position in range(12):
        walk = train.forever(batch_size)
        for _ in range(position):
            next(walk)
        stored = io.BytesIO()
        torch.save(walk.state_dict(), stored)
        stored.seek(0)
        resumed = train.forever(batch_size)
        for _ in range(position % 3):  # wherever it stood before
            next(resumed)
        resumed.load_state_dict(torch.load(stored, weights_only=True))
        assert resumed.state_dict() == {"drawn": position}
        for expected in whole[position : position + 4]:
            for found in (next(walk), next(resumed)):
                assert found.index.equal(expected.index)
                assert found.inputs.equal(expected.inputs)
                assert found.labels.equal(expected.labels)


def test_walks_do_not_disturb_each_other_nor_the_epochs() -> None:
    train = made()
    one, other = train.forever(4), train.forever(4)
    epoch = [batch.index.tolist() for batch in train.batches(0)]
    for _ in range(5):
        next(one)
    assert next(other).index.equal(drawn(train, 4, 1)[0].index)
    assert [batch.index.tolist() for batch in train.batches(0)] == epoch
    assert iter(one) is one


@pytest.mark.parametrize("world", [2, 3, 4])
@pytest.mark.parametrize("rows", [9, 23, 24, 25, 41])
def test_processes_share_every_mini_batch(rows: int, world: int) -> None:
    alone = [batch.index for batch in made(rows, 2 * world).batches(1)]
    shares = [made(rows, 2, rank=rank, world=world) for rank in range(world)]
    parts = list(zip(*(train.batches(1) for train in shares), strict=True))
    joined = []
    for part in parts:
        dealt = torch.full([sum(len(batch.index) for batch in part)], -1)
        for rank, batch in enumerate(part):
            dealt[rank::world] = batch.index
        joined.append(dealt)
    assert torch.cat(joined).equal(torch.cat(alone))
    for part in parts:
        sizes = [len(batch.index) for batch in part]
        assert min(sizes) >= 2  # so that each has a variance
        assert max(sizes) - min(sizes) <= 1
        assert len({batch.time for batch in part}) == 1


def test_each_process_has_all_classes_of_a_mini_batch_of_few() -> None:
    shares = [made(96, 6, rank=rank, world=2, classes_per_batch=2) for rank in (0, 1)]
    for part in zip(*(train.batches(0) for train in shares), strict=True):
        first, second = (set(batch.labels.tolist()) for batch in part)
        assert first == second
        assert len(first) == 2


def test_processes_share_the_batches_without_end_too() -> None:
    shares = [made(20, 4, rank=rank, world=2).forever(20) for rank in (0, 1)]
    for _ in range(3):
        parts = [next(share).index for share in shares]
        assert sorted(torch.cat(parts).tolist()) == list(range(20))
    shares = [made(20, 4, rank=rank, world=2).forever(10) for rank in (0, 1)]
    drawn = [torch.cat([next(share).index for share in shares]) for _ in range(2)]
    assert [len(each) for each in drawn] == [10, 10]
    assert sorted(torch.cat(drawn).tolist()) == list(range(20))


def test_processes_augment_each_by_its_own_chance() -> None:
    def shift(stored: Tensor, chance: torch.Generator) -> Tensor:
        return torch.rand(stored.shape, generator=chance)

    first, second = (
        next(made(20, 4, rank=rank, world=2, augment=shift).batches(0)).inputs for rank in (0, 1)
    )
    assert not torch.equal(first, second)
