"""The name of an encoder -> the encoder, imported and opened when it is asked for."""

from __future__ import annotations

import importlib
from dataclasses import asdict, dataclass, field
from typing import Any

from kinrank.encoders.base import PICTURES, TEXTS, Encoder, Options

PLAIN = {PICTURES: "efficientnet-lite", TEXTS: "minilm"}  # what is used unless another one is named: needs no hub
ENCODERS = {
    "efficientnet-lite": "kinrank.encoders.efficientnet_lite",
    "minilm": "kinrank.encoders.minilm",
    "onnx": "kinrank.encoders.onnx",
    "open-clip": "kinrank.encoders.open_clip",
    "sentence-transformers": "kinrank.encoders.sentence_transformers",
    "timm": "kinrank.encoders.timm",
    "cirtorch": "kinrank.encoders.published.cirtorch",
    "cvnet": "kinrank.encoders.published.cvnet",
    "delg": "kinrank.encoders.published.delg",
    "dolg": "kinrank.encoders.published.dolg",
    "senet": "kinrank.encoders.published.senet",
}


@dataclass(frozen=True)
class Recipe:
    """An encoder that is not opened yet: its name and what it is given; it can be written down as JSON."""

    name: str
    options: Options = field(default_factory=Options)

    def open(self) -> Encoder:
        return open_encoder(self.name, self.options)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, what was not given left out."""
        given = {name: value for name, value in asdict(self.options).items() if value is not None}
        return {"name": self.name, **given}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Recipe:
        given = dict(values)
        name = given.pop("name")
        if given.get("scales") is not None:
            given["scales"] = tuple(given["scales"])
        return cls(name, Options(**given))


def open_encoder(name: str, options: Options | None = None, **more: Any) -> Encoder:
    """The encoder of that name, or one over a function of yours, named as `package.module:function`.

    Args:
        name: one of ENCODERS, or a function that takes a picture of Pillow (RGB) and returns its vector.
        options, more: see `Options`; each encoder says which of them it takes.

    Example:
        >>> open_encoder("timm", model="resnet18").dimensions
        512
    """
    given = Options(**more) if options is None else options
    if ":" in name:
        from kinrank.encoders.function import opened

        return opened(name, given)
    if name not in ENCODERS:
        raise ValueError(
            f"encoder={name!r} is not known; give one of {', '.join(ENCODERS)}, or a function of yours as "
            "package.module:function"
        )
    found: Encoder = importlib.import_module(ENCODERS[name]).opened(given)
    return found
