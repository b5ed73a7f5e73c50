"""A file of torch.save -> its weights by name, and what it says about itself; nothing in it is executed.

Such a file is a pickle. torch reads it with a closed list of names that it may ask for: tensors, dicts, text, numbers.
To these come the arrays of numpy that some published files hold, read by the small stand-ins of `arrays.py`.
"""

from __future__ import annotations

import re
import threading
import warnings
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from kinrank.encoders.networks.arrays import NAMES
from kinrank.files.opening import FileProblem, regular

_reading = threading.Lock()  # torch keeps the names it allows in one place for all threads
_WEIGHTS = ("state_dict_ema", "model_ema", "state_dict", "model_state", "model")  # in files of several parts


@dataclass(frozen=True)
class Checkpoint:
    """The content of a file: weights by name, and the plain values that stand beside them."""

    path: Path
    weights: dict[str, Tensor]
    meta: dict[str, Any] = field(default_factory=dict)


def read(path: str | Path) -> Checkpoint:
    """The weights of a file; a FileProblem that says in one sentence why there are none.

    Example:
        >>> read("gl18-tl-resnet101-gem-w.pth").meta["architecture"]
        'resnet101'
    """
    path = regular(Path(path))
    content = _content(path)
    if not isinstance(content, Mapping):
        raise FileProblem(f"{path} holds no dict of weights but {_kind(content)}; save the state_dict of the network")
    found = next((content[name] for name in _WEIGHTS if isinstance(content.get(name), Mapping)), content)
    weights = {name: value for name, value in found.items() if isinstance(value, Tensor)}
    others = [str(name) for name, value in found.items() if not isinstance(value, Tensor)]
    if not weights or (others and found is not content) or not all(isinstance(name, str) for name in weights):
        raise FileProblem(
            f"{path} holds no dict of names and weights; it has {_some(map(str, found))}: give a file as it was "
            "published, or the state_dict of the network"
        )
    if others:
        raise FileProblem(f"{path} holds {_some(others)} among its weights; save the state_dict of the network alone")
    meta = content.get("meta")
    return Checkpoint(path, _without(weights, "module."), dict(meta) if isinstance(meta, Mapping) else {})


def _content(path: Path) -> Any:
    """Whatever the file holds."""
    if path.stat().st_size == 0:
        raise FileProblem(f"{path} is empty; it is no checkpoint of torch")
    try:
        with _reading, warnings.catch_warnings(), torch.serialization.safe_globals(NAMES):
            warnings.simplefilter("ignore")
            _unpacks_to_itself(path)
            return torch.load(path, map_location="cpu", weights_only=True)
    except FileProblem:
        raise
    except Exception as error:  # nearly anything: RuntimeError, EOFError, KeyError, and pickle's own
        said = " ".join(str(error).split())
        wanted = re.search(r"GLOBAL ([\w.]*\w) (?:was|whose)", said)
        if wanted:
            raise FileProblem(
                f"{path} asks for {wanted[1]}, which is never loaded; nothing was executed: take the file from its "
                "authors, or save only the state_dict of the network"
            ) from None
        raise FileProblem(
            f"{path} is truncated or is no checkpoint of torch ({type(error).__name__}: {said:.120})"
        ) from None


def _unpacks_to_itself(path: Path) -> None:
    """torch packs nothing, so a file whose parts are larger than it was made to exhaust memory."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as parts:
            size = sum(part.file_size for part in parts.infolist())
        if size > path.stat().st_size:
            raise FileProblem(f"{path} unpacks to {size} bytes, more than it has; torch.save never writes such a file")


def _without(weights: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The same weights under shorter names, if all of them begin so: networks that were trained on several cards."""
    if all(name.startswith(prefix) for name in weights):
        return {name.removeprefix(prefix): value for name, value in weights.items()}
    return weights


def _kind(content: Any) -> str:
    return "one tensor" if isinstance(content, Tensor) else f"a {type(content).__name__}"


def _some(names: Any) -> str:
    listed = list(names)
    return ", ".join(listed[:3]) + (f" and {len(listed) - 3} more" if len(listed) > 3 else "") if listed else "nothing"
