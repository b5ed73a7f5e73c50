"""Checkpoints of networks: weights by name and metadata, read without executing code, and loaded if all of them match.

A file written by torch.save is a pickle. torch reads it with a list of allowed names: tensors, dicts, text, numbers.
Some published files also contain numpy arrays, which refer to four names of numpy, six over all its versions. Each is
replaced here by a small class or function that accepts only the data of such a file and only numbers.
"""

from __future__ import annotations

import re
import threading
import warnings
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from kinrank.errors import InputError, UnreadableFileError
from kinrank.files.path_checks import check_regular_file
from kinrank.lazy_import import import_extra

Network = TypeVar("Network", bound=nn.Module)
COUNTER_SUFFIX = "num_batches_tracked"  # of batch norms during training; missing in old files
KNOWN_PREFIXES = {  # prefix of names that identifies a file -> description
    "encoder_q.": "CVNet (encoder cvnet)",
    "SSM.": "SENet (encoder senet)",
    "fc_t.": "DOLG (encoder dolg)",
    "globalmodel.head.": "DELG (encoder delg)",
    "features.": "a network of cirtorch (encoder cirtorch), or a VGG of torchvision",
    "layer1.": "a ResNet of torchvision",
    "stem.": "a ResNet of pycls",
}
DTYPE_CODES = ("f2", "f4", "f8", "i4", "i8", "u1", "b1")
_read_lock = threading.Lock()  # the list of allowed names of torch is global
# Key of the weights in files with several parts
_WEIGHT_KEYS = ("state_dict_ema", "model_ema", "state_dict", "model_state", "model")


class PickledDtype:
    """Replacement for numpy.dtype: type and byte order of numbers."""

    def __init__(self, code: str, *_: Any) -> None:
        if code not in DTYPE_CODES:
            raise InputError(f"an array of {code!r:.20} is not supported")
        self.code, self.order = code, "<"

    def __setstate__(self, state: Any) -> None:
        self.order = ">" if state[1] == ">" else "<"

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.order + self.code)


class PickledArray:
    """Replacement for numpy.ndarray. `__setstate__` sets its numbers."""

    values: NDArray[Any] = np.zeros(0)

    def __setstate__(self, state: Any) -> None:
        _, shape, kind, by_columns, content = state
        if not isinstance(kind, PickledDtype) or not isinstance(content, bytes):
            raise InputError("an array of objects is not supported")
        flat = np.frombuffer(content, kind.dtype).astype(kind.dtype.newbyteorder("="))
        self.values = flat.reshape(tuple(shape), order="F" if by_columns else "C")


def start_array(*_: Any) -> PickledArray:
    """Replacement for the function that creates an empty array."""
    return PickledArray()


def read_scalar(kind: PickledDtype, content: bytes) -> Any:
    """Replacement for the function that creates a scalar."""
    return np.frombuffer(content, kind.dtype)[0].item()


SAFE_GLOBALS: list[Callable[..., Any] | tuple[Callable[..., Any], str]] = [
    (PickledDtype, "numpy.dtype"),
    (PickledArray, "numpy.ndarray"),
    *((start_array, f"numpy.{core}.multiarray._reconstruct") for core in ("core", "_core")),  # numpy 1 and numpy 2
    *((read_scalar, f"numpy.{core}.multiarray.scalar") for core in ("core", "_core")),
]


def unwrap_array(value: Any) -> Any:
    """Return the numpy array of a PickledArray, and other values unchanged."""
    return value.values if isinstance(value, PickledArray) else value


@dataclass(frozen=True)
class Checkpoint:
    """Content of a file: weights by name, and the plain values of its metadata."""

    path: Path
    weights: dict[str, Tensor]
    meta: dict[str, Any] = field(default_factory=dict)


def read_checkpoint(path: str | Path) -> Checkpoint:
    """Read the weights of a .safetensors file, or of a file written by torch.save.

    Raise UnreadableFileError with the reason if this fails.

    Example:
        >>> read_checkpoint("gl18-tl-resnet101-gem-w.pth").meta["architecture"]
        'resnet101'
    """
    path = check_regular_file(Path(path))
    if path.suffix == ".safetensors":
        return Checkpoint(path, _load_safetensors(path))
    content = _load_content(path)
    if not isinstance(content, Mapping):
        actual = "one tensor" if isinstance(content, Tensor) else f"a {type(content).__name__}"
        raise UnreadableFileError(
            f"{path} contains {actual} instead of a dict of weights",
            remedy="save the state_dict of the network",
        )
    found = next((content[name] for name in _WEIGHT_KEYS if isinstance(content.get(name), Mapping)), content)
    weights = {name: value for name, value in found.items() if isinstance(value, Tensor)}
    others = [str(name) for name, value in found.items() if not isinstance(value, Tensor)]
    if not weights or (others and found is not content) or not all(isinstance(name, str) for name in weights):
        listed = _list_names("has", map(str, found)) or "has nothing"
        raise UnreadableFileError(
            f"{path} does not contain a dict of names and weights; it {listed}",
            allowed="an unmodified published file, or the state_dict of the network",
        )
    if others:
        raise UnreadableFileError(
            f"{path} {_list_names('contains', others)} among its weights",
            remedy="save only the state_dict of the network",
        )
    meta = content.get("meta")
    return Checkpoint(path, _strip_prefix(weights, "module."), dict(meta) if isinstance(meta, Mapping) else {})


def _load_safetensors(path: Path) -> dict[str, Tensor]:
    reader = import_extra("safetensors.torch", f"reading {path}", "io")
    try:
        return dict(reader.load_file(path))
    except Exception as error:  # the type depends on the damage
        message = " ".join(str(error).split())
        raise UnreadableFileError(
            f"{path} is damaged or not a safetensors file ({message:.160})", remedy="download it again"
        ) from None


def _load_content(path: Path) -> Any:
    """Load the content of the file."""
    if path.stat().st_size == 0:
        raise UnreadableFileError(f"{path} is empty, not a torch checkpoint")
    try:
        with _read_lock, warnings.catch_warnings(), torch.serialization.safe_globals(SAFE_GLOBALS):
            warnings.simplefilter("ignore")
            _check_unpacked_size(path)
            return torch.load(path, map_location="cpu", weights_only=True)
    except UnreadableFileError:
        raise
    except Exception as error:  # RuntimeError, EOFError, KeyError, errors of pickle and others
        message = " ".join(str(error).split())
        refused = re.search(r"GLOBAL ([\w.]*\w) (?:was|whose)", message)
        if refused:
            raise UnreadableFileError(
                f"{path} refers to {refused[1]}, which is never loaded; nothing was executed",
                remedy="get the file from its authors, or save only the state_dict of the network",
            ) from None
        raise UnreadableFileError(
            f"{path} is truncated or not a torch checkpoint ({type(error).__name__}: {message:.120})"
        ) from None


def _check_unpacked_size(path: Path) -> None:
    """Refuse a zip whose content is larger than the file: torch does not compress, so it is a zip bomb."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as parts:
            size = sum(part.file_size for part in parts.infolist())
        if size > path.stat().st_size:
            raise UnreadableFileError(
                f"{path} unpacks to {size} bytes, more than its own size; torch.save never writes such a file"
            )


def _strip_prefix(weights: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Remove a prefix that all names have, as in networks that were trained on several GPUs."""
    if all(name.startswith(prefix) for name in weights):
        return {name.removeprefix(prefix): value for name, value in weights.items()}
    return weights


def load_weights(network: Network, file: Checkpoint, encoder: str, unused: tuple[str, ...] = ()) -> Network:
    """Load the weights of a file into a network as float32, and set it to evaluation mode.

    Raise UnreadableFileError that lists the first weights that are missing, unknown, or have another shape.

    Args:
        network: may be on the meta device, without memory.
        file: the weights.
        encoder: name of the encoder, for errors.
        unused: prefixes of names that the file may have and that are not needed.
    """
    expected, given = network.state_dict(), file.weights
    both = [(name, given[name], like) for name, like in expected.items() if name in given]
    shapes = [
        f"{name} {tuple(value.shape)} for {tuple(like.shape)}"
        for name, value, like in both
        if value.shape != like.shape
    ]
    missing = [name for name in expected if name not in given and not name.endswith(COUNTER_SUFFIX)]
    unknown = [name for name in given if name not in expected and not name.startswith(unused)]
    problems = [
        _list_names("lacks", missing),
        _list_names("has the unknown", unknown),
        _list_names("has another shape of", shapes),
        _list_names("has no plain numbers in", [name for name, value, _ in both if not _is_plain(value)]),
    ]
    if any(problems):
        listed = " and ".join(problem for problem in problems if problem)
        raise UnreadableFileError(
            f"{file.path} does not fit the encoder {encoder}: it {listed}",
            remedy=f"it seems to be {_guess_network(given)}",
        )
    weights = {name: _copy_weight(given.get(name), like) for name, like in expected.items()}
    broken = [name for name, value in weights.items() if not bool(torch.isfinite(value).all())]
    if broken:
        raise UnreadableFileError(
            f"{file.path} {_list_names('has NaN or Inf in', broken)}", remedy="it is damaged; download it again"
        )
    network.load_state_dict(weights, assign=True)
    network.eval().requires_grad_(False)
    return network


def _is_plain(value: Tensor) -> bool:
    return (
        value.layout == torch.strided and value.device.type == "cpu" and not (value.is_quantized or value.is_complex())
    )


def _copy_weight(value: Tensor | None, like: Tensor) -> Tensor:
    """Copy a weight, so that weights that share memory in a file do not share it in the network."""
    if value is None:
        return torch.zeros(like.shape, dtype=like.dtype)
    return value.detach().to(like.dtype, copy=True).contiguous()


def _list_names(verb: str, names: Iterable[str]) -> str:
    """Return the verb and the first names; an empty text if there are none."""
    listed = list(names)
    more = f" and {len(listed) - 3} more" if len(listed) > 3 else ""
    return f"{verb} {', '.join(listed[:3])}{more}" if listed else ""


def _guess_network(names: Iterable[str]) -> str:
    known = list(names)
    return next(
        (what for sign, what in KNOWN_PREFIXES.items() if any(name.startswith(sign) for name in known)),
        "something else",
    )
