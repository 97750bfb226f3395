"""Weights to begin with: from a local file, in the naming of torchvision and timm.

`.pth` and `.pt` hold tensors pickled by torch; nothing else in them is ever unpickled.
`.safetensors` needs the package of that name. A state dict may stand alone or under `state_dict` or
`model`, and its names may begin with `module.`, as `DataParallel` saves them.

The classifier `fc` stays as initialised where the file has none of its size: other classes need
another one. Of a network for grey images, the first convolution becomes the sum of the file's over
the three colours, which is what the file's network would make of three equal ones.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from labelnoise.errors import LabelNoiseError

CLASSIFIER = "fc."
FIRST = "conv1.weight"
COUNTER = "num_batches_tracked"  # of batch norm: decides nothing here, and older files lack it
WRAPPINGS = ("state_dict", "model")
PREFIX = "module."
NAMED = 3  # keys that an error names


@dataclass(frozen=True)
class Weights:
    """The content of a file of weights.

    Attributes:
        path: Of the file.
        tensors: By their names in the network.
    """

    path: Path
    tensors: Mapping[str, Tensor]

    @classmethod
    def read(cls, path: Path) -> Weights:
        """All of a file."""
        if path.suffix not in READERS:
            known = ", ".join(READERS)
            raise LabelNoiseError(f"{path}: weights come in a file whose name ends in {known}")
        return cls(path, _state_dict(READERS[path.suffix](path), path))

    def into(self, network: nn.Module) -> nn.Module:
        """The network itself, with these weights; one that they do not fit is an error."""
        own = network.state_dict()
        theirs = {name: _fitting(name, value, own) for name, value in self.tensors.items()}
        if not _same_shapes(own, theirs, CLASSIFIER):
            own, theirs = _without(own, CLASSIFIER), _without(theirs, CLASSIFIER)
        missing = [name for name in own if name not in theirs and not name.endswith(COUNTER)]
        unexpected = [name for name in theirs if name not in own]
        shared = own.keys() & theirs.keys()
        wrong = [name for name in own if name in shared and own[name].shape != theirs[name].shape]
        faults = [
            *_told("it lacks", missing),
            *_told("it alone has", unexpected),
            *(f"{name} is {_size(theirs[name])}, not {_size(own[name])}" for name in wrong[:1]),
        ]
        if faults:
            raise LabelNoiseError(
                f"{self.path} is for another network: {'; '.join(faults)}: choose its --net, or "
                "leave --weights out"
            )
        network.load_state_dict(theirs, strict=False)  # not strict: what may be missing is known
        return network


def content(path: Path | None) -> bytes:
    """A hash of a file of weights, which may change under the same name; of none, nothing."""
    if path is None:
        return b""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def _pickled(path: Path) -> Any:
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise LabelNoiseError(
            f"{path} holds more than tensors, or is damaged, and is not read: save a state dict"
        ) from error
    except (RuntimeError, EOFError, OSError, KeyError, ValueError, AttributeError) as error:
        why = str(error).partition("\n")[0]
        raise LabelNoiseError(f"{path} cannot be read as weights: {why}") from error


def _safe(path: Path) -> Any:
    try:
        from safetensors import SafetensorError
        from safetensors.torch import load_file
    except ImportError as error:
        raise LabelNoiseError(
            f"{path}: .safetensors need a package: pip install 'labelnoise[safetensors]'"
        ) from error
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise LabelNoiseError(f"{path} cannot be read as weights: {error}") from error


READERS: dict[str, Callable[[Path], Any]] = {
    ".pth": _pickled,
    ".pt": _pickled,
    ".safetensors": _safe,
}


def _state_dict(found: Any, path: Path) -> dict[str, Tensor]:
    """The tensors by name, whatever they are wrapped in."""
    for key in WRAPPINGS:
        if isinstance(found, Mapping) and isinstance(found.get(key), Mapping):
            found = found[key]
    if not isinstance(found, Mapping) or not found or not all(map(_is_entry, found.items())):
        raise LabelNoiseError(
            f"{path} holds no state dict (tensors by name): torch.save(network.state_dict(), ...)"
        )
    common = all(name.startswith(PREFIX) for name in found)
    return {name.removeprefix(PREFIX) if common else name: each for name, each in found.items()}


def _is_entry(item: tuple[Any, Any]) -> bool:
    return isinstance(item[0], str) and isinstance(item[1], Tensor)


def _fitting(name: str, value: Tensor, own: Mapping[str, Tensor]) -> Tensor:
    """A tensor as it is, or for a network of grey images the sum over colours."""
    if name == FIRST and name in own and own[name].ndim == value.ndim == 4:
        return value.sum(1, keepdim=True) if own[name].shape[1] == 1 else value
    return value


def _same_shapes(one: Mapping[str, Tensor], other: Mapping[str, Tensor], prefix: str) -> bool:
    """Whether both have the same below a prefix."""
    first, second = (
        {name: value.shape for name, value in each.items() if name.startswith(prefix)}
        for each in (one, other)
    )
    return first == second


def _without(state: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name: value for name, value in state.items() if not name.startswith(prefix)}


def _told(what: str, names: Sequence[str]) -> Iterable[str]:
    """The first of the names, if there are any."""
    if names:
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        yield f"{what} {', '.join(names[:NAMED])}{more}"


def _size(value: Tensor) -> str:
    return "x".join(map(str, value.shape)) or "a number"
