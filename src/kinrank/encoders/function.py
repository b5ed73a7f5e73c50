"""A function of yours, named as package.module:function -> an encoder of pictures."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kinrank.encoders.base import PICTURES, Encoder, Options
from kinrank.features import Vectors


class FunctionEncoder(Encoder):
    """Calls a function for every picture; how long its vectors are is known from a small grey one."""

    kinds = (PICTURES,)

    def __init__(self, name: str, function: Callable[[Any], Any]) -> None:
        from kinrank.deferred import needed

        self._function = function
        grey = needed("PIL.Image", f"the encoder {name}", "web").new("RGB", (64, 64), (127, 127, 127))
        try:
            self.dimensions = len(self._vector(grey))
        except Exception as error:  # whatever somebody's function raises
            said = " ".join(str(error).split())[:160]
            raise ValueError(
                f"encoder={name!r} made no vector of a grey picture ({type(error).__name__}: {said}); it must take a "
                "picture of Pillow and return numbers"
            ) from error
        self.facts = {"encoder": name, "dimensions": self.dimensions}

    def pictures(self, images: Sequence[Any]) -> Vectors:
        return np.stack([self._vector(image) for image in images])

    def _vector(self, image: Any) -> Vectors:
        return np.asarray(self._function(image), np.float32).reshape(-1)


def opened(words: str, options: Options) -> Encoder:
    """The encoder over the function that `package.module:function` names."""
    options.only(words)
    module, _, name = words.partition(":")
    if not module or not name:
        raise ValueError(f"encoder={words!r} names no function; give it as package.module:function")
    try:
        found = getattr(importlib.import_module(module), name)
    except Exception as error:  # whatever runs when a module is imported
        raise ValueError(
            f"encoder={words!r} cannot be imported ({error}); is the package installed here, or on PYTHONPATH?"
        ) from error
    if not callable(found):
        raise ValueError(f"encoder={words!r} is no function; give it as package.module:function")
    return FunctionEncoder(words, found)
