from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from labelnoise.data import scale
from labelnoise.data.scale import SCALES, Scaling, imagenet, raw, standardised, unit
from labelnoise.data.stored import walk
from labelnoise.errors import LabelNoiseError


def random_bytes(*shape: int) -> torch.Tensor:
    chance = torch.Generator().manual_seed(0)
    return torch.randint(256, shape, generator=chance).to(torch.uint8)


def test_raw_leaves_the_numbers() -> None:
    pixels = random_bytes(5, 1, 3, 3)
    assert raw(pixels)(pixels).equal(pixels.float())
    floats = torch.randn(5, 4)
    assert raw(floats)(floats).equal(floats)


def test_unit_divides_bytes_by_255_and_leaves_floats() -> None:
    pixels = random_bytes(5, 1, 3, 3)
    pixels[0, 0, 0] = torch.tensor([0, 255, 128], dtype=torch.uint8)
    scaled = unit(pixels)(pixels)
    assert torch.allclose(scaled, pixels.float() / 255)
    assert float(scaled.min()) == 0
    assert float(scaled.max()) == pytest.approx(1.0)
    floats = torch.randn(5, 4)
    assert unit(floats)(floats).equal(floats)


def test_a_large_batch_is_scaled_as_a_small_one() -> None:
    pixels = random_bytes(60, 3, 224, 224)  # 36 MB as floats
    scaling = imagenet(pixels)
    before = pixels.clone()
    found = scaling(pixels)
    assert pixels.equal(before)
    assert found.is_contiguous()
    assert found.equal(torch.cat([scaling(part) for part in torch.split(pixels, 7)]))


def test_the_mean_of_large_images_takes_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    pixels = random_bytes(30, 3, 8, 8)
    expected = standardised(pixels)
    taken = []

    def noting(inputs: torch.Tensor, size: int) -> Iterator[torch.Tensor]:
        taken.append(size)
        return walk(inputs, size)

    monkeypatch.setattr(scale, "CHUNK_VALUES", 1000)
    monkeypatch.setattr(scale, "walk", noting)
    found = standardised(pixels)
    assert taken == [1000 // (3 * 8 * 8)]
    assert torch.allclose(found.shift, expected.shift, rtol=1e-6)
    assert torch.allclose(found.factor, expected.factor, rtol=1e-6)


@pytest.mark.parametrize("rows", [30, 5_000])  # within one chunk, and over several
def test_standardised_images_have_mean_0_and_deviation_1_by_channel(rows: int) -> None:
    pixels = random_bytes(rows, 3, 4, 2)
    pixels[:, 1] //= 10
    scaled = standardised(pixels)(pixels).double()
    for channel in range(3):
        values = np.array([float(v) for v in scaled[:, channel].flatten()])
        assert values.mean() == pytest.approx(0, abs=1e-5)
        assert values.std() == pytest.approx(1, abs=1e-5)
    # A channel has one map for all its pixels.
    assert standardised(pixels).shift.shape == (1, 3, 1, 1)


def test_standardised_features_have_mean_0_and_deviation_1_one_by_one() -> None:
    chance = torch.Generator().manual_seed(0)
    factor, shift = torch.tensor([1e-6, 1.0, 1e4]), torch.tensor([0.0, -5.0, 1e5])
    table = torch.randn(200, 3, generator=chance) * factor + shift
    scaled = standardised(table)(table).double()
    assert scaled.mean(dim=0).tolist() == pytest.approx([0] * 3, abs=1e-3)
    assert scaled.std(dim=0, correction=0).tolist() == pytest.approx([1] * 3, abs=1e-3)


@pytest.mark.parametrize("value", [0.0, 1e-8, 0.1, 1 / 3, 255.0, 1e8])
def test_a_constant_feature_becomes_0_and_nothing_shouts(value: float) -> None:
    table = torch.randn(100, 2, generator=torch.Generator().manual_seed(0))
    table[:, 1] = value
    scaled = standardised(table)(table)
    assert scaled.isfinite().all()
    assert scaled[:, 1].abs().max() <= 1e-6 * max(1.0, value)
    assert float(scaled[:, 0].std()) == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("scale", SCALES)
def test_the_map_of_the_training_part_serves_all_parts(scale: str) -> None:
    train, test = random_bytes(40, 3, 2, 2), random_bytes(7, 3, 2, 2) // 2
    scaling = SCALES[scale](train)
    together = scaling(torch.cat([train, test]))
    assert scaling(test).equal(together[40:])


def test_scaling_copies() -> None:
    inputs = torch.ones(3, 2)
    Scaling(torch.tensor(0.0), torch.tensor(1.0))(inputs).zero_()
    assert inputs.equal(torch.ones(3, 2))


def test_scaling_moves_to_a_device_whole() -> None:
    moved = standardised(random_bytes(9, 3, 2, 2)).to(torch.device("meta"))
    assert moved.shift.device.type == moved.factor.device.type == "meta"


# --- large images ---------------------------------------------------------------------------------


def test_imagenet_pixels_are_normalised_by_its_numbers_not_by_the_datas() -> None:
    pixels = random_bytes(4, 3, 2, 2)
    scaled = imagenet(pixels)(pixels)
    numbers = [(0.485, 0.229), (0.456, 0.224), (0.406, 0.225)]
    for channel, (mean, deviation) in enumerate(numbers):
        expected = (pixels[:, channel].double() / 255 - mean) / deviation
        assert torch.allclose(scaled[:, channel].double(), expected, atol=1e-5)
    floats = pixels.float() / 255
    assert torch.allclose(imagenet(floats)(floats), scaled, atol=1e-5)


def test_grey_images_have_the_mean_of_imagenets_numbers() -> None:
    pixels = random_bytes(4, 1, 2, 2)
    expected = (pixels.double() / 255 - 0.449) / 0.226
    assert torch.allclose(imagenet(pixels)(pixels).double(), expected, atol=1e-5)


@pytest.mark.parametrize("shape", [(5, 3), (5, 2, 4, 4), (5, 4, 4, 4)])
def test_imagenet_is_for_images(shape: tuple[int, ...]) -> None:
    with pytest.raises(LabelNoiseError, match="'imagenet' is for colour or grey images"):
        imagenet(torch.zeros(shape))


def test_imagenet_does_not_look_at_the_data() -> None:
    """A million files would be decoded for it; on the meta device there is nothing to look at."""
    imagenet(torch.empty(10**6, 3, 256, 256, dtype=torch.uint8, device="meta"))


@pytest.mark.parametrize(
    ("height", "width", "top", "left"), [(7, 9, 1, 2), (4, 6, 0, 1), (4, 4, 0, 0)]
)
def test_a_crop_is_the_centre(height: int, width: int, top: int, left: int) -> None:
    images = torch.arange(2 * 3 * height * width).view(2, 3, height, width).float()
    found = Scaling(torch.tensor(1.0), torch.tensor(2.0), crop=4)(images)
    assert found.equal((images[:, :, top : top + 4, left : left + 4] - 1) * 2)
    assert found.is_contiguous()


def test_the_crop_goes_to_a_device_with_the_rest() -> None:
    assert Scaling(torch.tensor(0.0), torch.tensor(1.0), 5).to(torch.device("meta")).crop == 5
