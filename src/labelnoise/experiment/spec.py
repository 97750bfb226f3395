"""Spec: what was asked for, fully expanded; a run's identity is its hash."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import Field, asdict, fields
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal, TypeVar, get_type_hints

from pydantic import (
    BaseModel,
    ConfigDict,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    ValidationError,
    ValidationInfo,
    create_model,
    field_validator,
)

from labelnoise.data import base_of
from labelnoise.data.scale import SCALES
from labelnoise.errors import LabelNoiseError, unknown
from labelnoise.learner import OPTIMISERS, SCHEDULES, Recipe, milestones_go_with_steps
from labelnoise.method import Method
from labelnoise.methods import method_named

LATER = (  # fields of a training that came after there were runs
    *("crop", "weights", "milestones", "decay", "classes_per_batch"),
    *("accumulate", "precision", "processes", "scope"),
)
NONE = "none"
LONGEST = 80  # letters of a data set's name, with its changes, in the name of a directory

Setting = bool | int | float | str | None


class Training(BaseModel):
    """How a network is trained; a preset fills it in."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    epochs: PositiveInt
    batch_size: PositiveInt
    optimiser: Literal[tuple(OPTIMISERS)]  # type: ignore[valid-type]
    lr: PositiveFloat
    weight_decay: NonNegativeFloat = 0.0
    schedule: Literal[tuple(SCHEDULES)]  # type: ignore[valid-type]
    scale: Literal[tuple(SCALES)]  # type: ignore[valid-type]
    augment: bool
    # What came later; at these values it is no part of a run's identity.
    crop: PositiveInt | None = None  # side of the square that a network sees of a larger image
    weights: str | None = None  # a file of pre-trained weights to begin with
    milestones: tuple[PositiveInt, ...] = ()  # epochs after which a "steps" schedule lowers lr
    decay: PositiveFloat = 0.1  # what it multiplies lr by
    classes_per_batch: PositiveInt | None = None  # draw each mini-batch from so few classes
    accumulate: PositiveInt = 1  # mini-batches that make one update
    precision: Literal["float32", "bfloat16", "float16"] = "float32"
    processes: PositiveInt = 1  # that train together, each with mini-batches of its own
    scope: Literal["global", "local"] = "global"  # of statistics over those mini-batches

    @field_validator("weights")
    @classmethod
    def _none_is_a_word(cls, weights: str | None) -> str | None:
        return None if weights == NONE else weights  # TOML has no null

    @field_validator("milestones")
    @classmethod
    def _in_order(cls, milestones: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sorted(milestones))

    def recipe(self) -> Recipe:
        """The part that a learner needs."""
        return Recipe(
            optimiser=self.optimiser,
            lr=self.lr,
            weight_decay=self.weight_decay,
            schedule=self.schedule,
            epochs=self.epochs,
            accumulate=self.accumulate,
            precision=self.precision,
            milestones=self.milestones,
            decay=self.decay,
        )

    def sees(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of what a network sees of inputs of this shape."""
        if self.crop is None:
            return tuple(shape)
        if len(shape) != 3 or min(shape[1:]) < self.crop:
            raise LabelNoiseError(
                f"crop {self.crop} needs images of at least {self.crop}x{self.crop} pixels, the "
                f"data have {'x'.join(map(str, shape))}: choose a smaller crop, or leave it out"
            )
        return (shape[0], self.crop, self.crop)


class Spec(BaseModel):
    """One run: nothing is left to a default that might change."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dataset: str
    digest: str  # of the data themselves: a file may change under the same name
    method: str
    settings: dict[str, Setting]
    noise: str
    noise_rate: Literal["true", "auto"] | None = None  # where a method's own field does not say it
    trusted: str | None = None  # "file:PATH", "validation" or "validation:N"
    net: str
    preset: str
    training: Training
    trace: tuple[int, ...] = ()
    seed: int = 0
    data_seed: int = 0
    whole: bool = False  # trained on every row, nothing held out

    @field_validator("trace")
    @classmethod
    def _within_the_run(cls, trace: tuple[int, ...], info: ValidationInfo) -> tuple[int, ...]:
        last = info.data["training"].epochs if "training" in info.data else 0
        if any(not 1 <= epoch <= last for epoch in trace):
            raise ValueError(f"epochs to trace lie between 1 and {last}")
        return trace

    @classmethod
    def of(cls, recorded: Mapping[str, Any]) -> Spec:
        """The spec in a run's header; what an older version left open is filled in."""
        spec = cls(**recorded)
        return spec.model_copy(update={"settings": settings_of(spec.method_instance())})

    def method_instance(self) -> Method:
        """The method with its settings."""
        return build_method(self.method, self.settings)

    def identity(self) -> str:
        """A directory's name: what a person looks for, then a hash of everything."""
        # Runs from before there were whole ones, or these fields of a training, keep their names.
        content = self.model_dump(mode="json", exclude=None if self.whole else {"whole"})
        fields = Training.model_fields
        for name in LATER:
            if getattr(self.training, name) == fields[name].default:
                del content["training"][name]
        text = json.dumps(content, sort_keys=True)
        short = hashlib.sha256(text.encode()).hexdigest()[:10]
        base = base_of(self.dataset)
        data = f"{Path(base).stem}{self.dataset.removeprefix(base)}"[:LONGEST]
        words = (data, self.method, self.noise, f"seed{self.seed}", short)
        return "-".join(re.sub(r"[^A-Za-z0-9.]+", "_", word) for word in words)


def build_method(name: str, settings: Mapping[str, Any]) -> Method:
    """The method called `name` with `settings`; a wrong field suggests the nearest right one."""
    schema = _schema(name)
    for field in settings:
        if field not in schema.model_fields:
            raise unknown(f"field of method {name!r}", field, schema.model_fields)
    return method_named(name)(**_validated(schema, settings).model_dump())


@cache
def _schema(name: str) -> type[BaseModel]:
    """What checks the fields of a method; made once, for tables of many runs."""
    kind = method_named(name)
    types = get_type_hints(kind)
    known = {field.name: (types[field.name], field.default) for field in method_fields(name)}
    schema: type[BaseModel] = create_model(kind.__name__, **known)  # type: ignore[call-overload]
    return schema


def method_fields(name: str) -> tuple[Field[Any], ...]:
    """The hyper-parameters of the method called `name`."""
    return fields(method_named(name))  # type: ignore[arg-type]


def settings_of(method: Method) -> dict[str, Setting]:
    """The fields of a method, with their values."""
    return asdict(method)  # type: ignore[call-overload, no-any-return]


@cache
def presets() -> dict[str, dict[str, Any]]:
    """The shipped presets, as written."""
    text = resources.files("labelnoise.experiment").joinpath("presets.toml").read_text()
    return tomllib.loads(text)


def preset_training(preset: str, changes: Mapping[str, Any]) -> Training:
    """How a preset trains on data that it has no word about, but for what is changed."""
    chosen = presets()[preset]
    known = {key: value for key, value in chosen.items() if key in Training.model_fields}
    return _training({**known, **changes})


def expand(
    *,
    dataset: str,
    digest: str,
    method: str,
    noise: str,
    net: str,
    noise_rate: str | None = None,
    trusted: str | None = None,
    preset: str = "recommended",
    changes: Mapping[str, Any] | None = None,
    trace: Sequence[int] = (),
    seed: int = 0,
    data_seed: int = 0,
    whole: bool = False,
) -> Spec:
    """Everything that a run needs, from a preset and what the user changes of it.

    Args:
        dataset: Its name or path.
        digest: A hash of the data.
        method: Its name.
        noise: Its canonical text.
        net: Its name; `auto` is resolved before.
        noise_rate: Where a noise rate comes from, if the method needs one.
        trusted: Where a trusted set comes from, if the method needs one.
        preset: Its name.
        changes: Fields of the method or of the training, by name.
        trace: Epochs whose thresholds are kept for every mini-batch.
        seed: Initialisation and order.
        data_seed: Split and noise.
        whole: Whether to train on every row.
    """
    if preset not in presets():
        raise unknown("preset", preset, presets())
    chosen = presets()[preset]
    training = {key: value for key, value in chosen.items() if key in Training.model_fields}
    special = chosen.get("dataset", {}).get(base_of(dataset), {})
    training |= {key: value for key, value in special.items() if key in Training.model_fields}
    settings = {
        **chosen.get("method", {}).get(method, {}),
        **special.get("method", {}).get(method, {}),
    }
    of_method = {field.name for field in method_fields(method)}
    for name, value in (changes or {}).items():
        if name in of_method:
            settings[name] = value
        elif name in Training.model_fields:
            training[name] = value
        else:
            raise unknown("setting", name, of_method | set(Training.model_fields))
    spec = {
        "dataset": dataset,
        "digest": digest,
        "method": method,
        "settings": settings_of(build_method(method, settings)),
        "noise": noise,
        "noise_rate": noise_rate,
        "trusted": trusted,
        "net": net,
        "preset": preset,
        "training": _training(training),
        "trace": tuple(sorted(set(trace))),
        "seed": seed,
        "data_seed": data_seed,
        "whole": whole,
    }
    return _validated(Spec, spec)


def _training(values: Mapping[str, Any]) -> Training:
    """A training, each field right by itself and together with the others."""
    training = _validated(Training, values)
    milestones_go_with_steps(training.schedule, training.milestones)
    return training


Model = TypeVar("Model", bound=BaseModel)


def _validated(schema: type[Model], values: Mapping[str, Any]) -> Model:
    """`values` as the schema wants them, or one line that says which one is wrong and why."""
    try:
        return schema(**values)
    except ValidationError as error:
        first = error.errors()[0]
        place = first["loc"][0] if first["loc"] else schema.__name__
        raise LabelNoiseError(f"{place}: {first['msg']}, got {first['input']!r}") from error
