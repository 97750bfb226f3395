"""Every method by its name; adding one means adding its file and its line here."""

from __future__ import annotations

from labelnoise.errors import unknown
from labelnoise.method import Method
from labelnoise.methods.bare import BARE
from labelnoise.methods.cce import CCE
from labelnoise.methods.coteaching import CoTeaching
from labelnoise.methods.coteaching_plus import CoTeachingPlus
from labelnoise.methods.curriculum_loss import CurriculumLoss
from labelnoise.methods.gce import GCE
from labelnoise.methods.meta_net import MetaNet
from labelnoise.methods.meta_ren import MetaRen

METHODS: dict[str, type[Method]] = {
    "bare": BARE,
    "cce": CCE,
    "coteaching": CoTeaching,
    "coteaching-plus": CoTeachingPlus,
    "meta-ren": MetaRen,
    "meta-net": MetaNet,
    "curriculum-loss": CurriculumLoss,
    "gce": GCE,
}


def method_named(name: str) -> type[Method]:
    """The method called `name`."""
    if name not in METHODS:
        raise unknown("method", name, METHODS)
    return METHODS[name]
