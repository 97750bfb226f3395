"""Ask: what is asked of one training, before any data are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from labelnoise import dist
from labelnoise.data.columns import Columns
from labelnoise.experiment.spec import Spec, expand
from labelnoise.experiment.supply import rate_source, trusted_source
from labelnoise.noise import parse


@dataclass(frozen=True)
class Ask:
    """The arguments of `train` that say what to train; it documents them."""

    data: str
    method: str = "bare"
    noise: str = "none"
    noise_rate: float | str | None = None
    trusted: int | str | None = None
    net: str = "auto"
    preset: str = "recommended"
    epochs: int | None = None
    batch_size: int | None = None
    classes_per_batch: int | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)
    trace: Sequence[int] = ()
    seed: int = 0
    data_seed: int = 0
    whole: bool = False
    columns: Columns = field(default_factory=Columns)

    @classmethod
    def of(cls, written: Mapping[str, Any]) -> Ask:
        """An ask from its fields as plain JSON."""
        return cls(**{**written, "columns": Columns(**written["columns"])})

    def without_data(self) -> Spec:
        """The spec as far as it is clear before the data are read; what is misspelt is an error."""
        return self.spec(dataset=self.data, digest="", net=self.net, known=True)

    def spec(self, *, dataset: str, digest: str, net: str, known: bool) -> Spec:
        """The full spec, once it is clear what the data are.

        Args:
            dataset: Their name.
            digest: A hash of them.
            net: A net's name; `auto` is resolved.
            known: Whether their true labels are known.
        """
        noise, changes = parse(self.noise), dict(self.changes)
        told = changes.get("noise_rate") is not None
        rate = rate_source(self.noise_rate, self.method, noise, known=known, told=told)
        by_word = isinstance(rate, str)
        given = {
            "epochs": self.epochs,
            "batch_size": self.batch_size,
            "classes_per_batch": self.classes_per_batch,
            "noise_rate": None if by_word else rate,
            "processes": dist.processes() if dist.processes() > 1 else None,
        }
        return expand(
            dataset=dataset,
            digest=digest,
            method=self.method,
            noise=noise.text,
            net=net,
            noise_rate=str(rate) if by_word else None,
            trusted=trusted_source(self.trusted, self.method, known=known),
            preset=self.preset,
            changes={
                **changes,
                **{key: value for key, value in given.items() if value is not None},
            },
            trace=self.trace,
            seed=self.seed,
            data_seed=self.data_seed,
            whole=self.whole,
        )
