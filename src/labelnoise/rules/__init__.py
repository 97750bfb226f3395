"""Rules that say which labels of a mini-batch to trust, by name."""

from __future__ import annotations

import torch

from labelnoise.errors import unknown
from labelnoise.rules.evidence import Evidence
from labelnoise.rules.posterior import Posterior
from labelnoise.rules.remembered import RememberedBatch, RememberedClass
from labelnoise.rules.thresholds import THRESHOLDS, ByThreshold, no_kappa
from labelnoise.rules.verdict import Rule

REMEMBERING: dict[str, type[Evidence] | type[Posterior]] = {
    "evidence": Evidence,
    "posterior": Posterior,
}
REMEMBERED: dict[str, tuple[str, type[RememberedBatch] | type[RememberedClass]]] = {
    # What it is over one mini-batch, which also has its kappa.
    "batch-remembered": ("batch", RememberedBatch),
    "class-remembered": ("class", RememberedClass),
}
RULES = (*REMEMBERING, *THRESHOLDS, *REMEMBERED)
DEFAULT = "evidence"


def check_rule(name: str, kappa: float | None) -> float | None:
    """Refuse a rule that does not exist; the kappa that is meant, where the rule has one."""
    if name not in RULES:
        raise unknown("threshold", name, RULES)
    if name in THRESHOLDS:
        return ByThreshold(name, kappa).kappa
    if name in REMEMBERED:
        return ByThreshold(REMEMBERED[name][0], kappa).kappa
    if kappa is not None:
        raise no_kappa(name)
    return None


def new_rule(
    name: str,
    kappa: float | None,
    *,
    num_classes: int,
    samples: int,
    device: torch.device | str,
) -> Rule:
    """A rule that has seen nothing yet, for a training on so many samples."""
    meant = check_rule(name, kappa)
    if name in THRESHOLDS:
        return ByThreshold(name, meant)
    if name in REMEMBERED and meant is not None:
        return REMEMBERED[name][1](num_classes, meant).to(device)
    return REMEMBERING[name](num_classes, samples).to(device)
