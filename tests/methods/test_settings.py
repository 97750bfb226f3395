"""Settings that no training could make sense of are refused when a method is made."""

from __future__ import annotations

import math
from typing import Any

import pytest

from labelnoise import LabelNoiseError, Method
from labelnoise.methods.coteaching import CoTeaching
from labelnoise.methods.coteaching_plus import CoTeachingPlus
from labelnoise.methods.curriculum_loss import CurriculumLoss
from labelnoise.methods.meta_net import MetaNet
from labelnoise.methods.meta_ren import MetaRen


@pytest.mark.parametrize(
    ("kind", "field", "least"),
    [
        (CoTeaching, "ramp", 1),
        (CoTeaching, "exponent", 0),
        (CoTeachingPlus, "ramp", 1),
        (CoTeachingPlus, "warmup", 0),
        (CoTeachingPlus, "agree_steps", 0),
        (CurriculumLoss, "burn_in", 0),
        (MetaRen, "trusted_batch", 1),
        (MetaNet, "trusted_batch", 1),
        (MetaNet, "hidden", 1),
        (MetaNet, "meta_lr", 0),
        (MetaNet, "meta_decay", 0),
        (MetaNet, "inner_lr", 0),
    ],
)
def test_a_setting_below_the_least_is_refused(kind: Any, field: str, least: int) -> None:
    kind(**{field: least})
    for value in (least - 1, math.nan):
        with pytest.raises(LabelNoiseError, match=f"{field} must be at least {least}, got {value}"):
            kind(**{field: value})


@pytest.mark.parametrize("kind", [CoTeaching, CoTeachingPlus, CurriculumLoss])
def test_a_noise_rate_outside_its_range_is_refused(kind: type[Method]) -> None:
    for rate in (None, 0.0, 0.99):
        kind(noise_rate=rate)  # type: ignore[call-arg]
    for rate in (-0.1, 1.0, 1.5, math.nan):
        with pytest.raises(LabelNoiseError, match=r"a noise rate lies in \[0, 1\), got"):
            kind(noise_rate=rate)  # type: ignore[call-arg]
