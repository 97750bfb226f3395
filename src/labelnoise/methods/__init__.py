"""Every method by its name; adding one means adding its file and its line here."""

from __future__ import annotations

from labelnoise.errors import unknown
from labelnoise.method import Method
from labelnoise.methods.bare import BARE
from labelnoise.methods.cce import CCE

METHODS: dict[str, type[Method]] = {
    "bare": BARE,
    "cce": CCE,
}


def method_named(name: str) -> type[Method]:
    """The method called `name`."""
    if name not in METHODS:
        raise unknown("method", name, METHODS)
    return METHODS[name]
