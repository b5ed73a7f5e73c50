"""Registry of encoders by name, and encoders over functions of the user. Modules are imported when they are opened."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from kinrank.encoders.base import PICTURES, TEXTS, Encoder, Options
from kinrank.errors import InputError
from kinrank.lazy_import import import_extra
from kinrank.vector_input import Vectors

DEFAULT_ENCODERS = {PICTURES: "efficientnet-lite", TEXTS: "minilm"}  # need no hub
ENCODERS = {  # module, or module:function; the default function is `open_with_options`
    "efficientnet-lite": "kinrank.encoders.efficientnet_lite",
    "minilm": "kinrank.encoders.sentence_transformers:open_minilm",
    "onnx": "kinrank.encoders.onnx",
    "open-clip": "kinrank.encoders.open_clip",
    "sentence-transformers": "kinrank.encoders.sentence_transformers",
    "timm": "kinrank.encoders.timm",
    # those of the paper's tables, in the package kinrank-bench
    "cirtorch": "kinrank_bench.encoders.retrieval_encoders:open_cirtorch",
    "cvnet": "kinrank_bench.encoders.retrieval_encoders:open_cvnet",
    "delg": "kinrank_bench.encoders.retrieval_encoders:open_delg",
    "dolg": "kinrank_bench.encoders.retrieval_encoders:open_dolg",
    "senet": "kinrank_bench.encoders.retrieval_encoders:open_senet",
}


@dataclass(frozen=True)
class Recipe:
    """Name and options of an encoder that is not open yet. It can be saved as JSON."""

    name: str
    options: Options = field(default_factory=Options)

    def open(self) -> Encoder:
        return open_encoder(self.name, self.options)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, without options that are not set."""
        given = {name: value for name, value in asdict(self.options).items() if value is not None}
        return {"name": self.name, **given}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Recipe:
        given = dict(values)
        return cls(given.pop("name"), Options(**given))


def open_encoder(name: str, options: Options | None = None, **more: Any) -> Encoder:
    """Open an encoder by name, or one over your own function, given as `package.module:function`.

    Args:
        name: one of ENCODERS, or a function that takes a Pillow image (RGB) and returns its vector.
        options, more: see `Options`; each encoder accepts some of them.

    Example:
        >>> open_encoder("timm", model="resnet18").dimensions
        512
    """
    given = Options(**more) if options is None else options
    if ":" in name:
        return _open_function(name, given)
    if name not in ENCODERS:
        raise InputError(
            "is not known",
            parameter="encoder",
            given=name,
            allowed=f"one of {', '.join(ENCODERS)}, or your own function as package.module:function",
        )
    path, _, function = ENCODERS[name].partition(":")
    in_bench = path.startswith("kinrank_bench.")
    module = import_extra(path, f"the encoder {name}", "bench") if in_bench else importlib.import_module(path)
    encoder: Encoder = getattr(module, function or "open_with_options")(given)
    return encoder


class FunctionEncoder(Encoder):
    """Calls a function for every image. A small grey image determines the length of its vectors."""

    kinds = (PICTURES,)

    def __init__(self, name: str, function: Callable[[Any], Any]) -> None:
        self._function = function
        grey = import_extra("PIL.Image", f"the encoder {name}", "web").new("RGB", (64, 64), (127, 127, 127))
        try:
            self.dimensions = len(self._vector(grey))
        except Exception as error:  # anything that the function raises
            message = " ".join(str(error).split())[:160]
            raise InputError(
                f"returned no vector for a grey image ({type(error).__name__}: {message})",
                parameter="encoder",
                given=name,
                allowed="a function that takes a Pillow image and returns numbers",
            ) from error
        self.facts = {"encoder": name, "dimensions": self.dimensions}

    def pictures(self, images: Sequence[Any]) -> Vectors:
        return np.stack([self._vector(image) for image in images])

    def _vector(self, image: Any) -> Vectors:
        return np.asarray(self._function(image), np.float32).reshape(-1)


def _open_function(words: str, options: Options) -> Encoder:
    """Open the encoder for a function given as `package.module:function`."""
    options.allow_only(words)
    module, _, name = words.partition(":")
    if not module or not name:
        raise InputError("is not a function", parameter="encoder", given=words, allowed="package.module:function")
    try:
        found = getattr(importlib.import_module(module), name)
    except Exception as error:  # anything that the module raises on import
        raise InputError(
            f"cannot be imported ({error})",
            parameter="encoder",
            given=words,
            remedy="check that the package is installed or on PYTHONPATH",
        ) from error
    if not callable(found):
        raise InputError("is not a function", parameter="encoder", given=words, allowed="package.module:function")
    return FunctionEncoder(words, found)
