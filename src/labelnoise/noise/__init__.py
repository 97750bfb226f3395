"""Noise: plant wrong labels on purpose, and say what was planted."""

from labelnoise.noise.corrupt import corrupt, realised
from labelnoise.noise.instance import flip_rates, instance_dependent
from labelnoise.noise.kinds import KINDS, Kind, Noise, parse
from labelnoise.noise.transition import (
    NAMED,
    NotDominantWarning,
    class_conditional,
    named,
    pair,
    read_matrix,
    symmetric,
    symmetric_inclusive,
)

__all__ = [
    "KINDS",
    "NAMED",
    "Kind",
    "Noise",
    "NotDominantWarning",
    "class_conditional",
    "corrupt",
    "flip_rates",
    "instance_dependent",
    "named",
    "pair",
    "parse",
    "read_matrix",
    "realised",
    "symmetric",
    "symmetric_inclusive",
]
