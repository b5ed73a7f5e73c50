"""Flags that say how pictures and texts become vectors, the same for all commands that make some."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from kinrank.cli.inputs import words
from kinrank.encoders import ENCODERS, Options

Encoder = Annotated[
    str | None,
    typer.Option(
        "--encoder",
        help=f"What makes vectors: {' | '.join(ENCODERS)}, or a function of yours as package.module:function. Without: "
        "efficientnet-lite for pictures, minilm for texts.",
    ),
]
Model = Annotated[str | None, typer.Option("--model", help="Which model of the library, such as resnet50 for timm.")]
WeightsFile = Annotated[
    Path | None, typer.Option("--weights", help="File of weights: .onnx, or the checkpoint of a published network.")
]
Scales = Annotated[
    str | None, typer.Option("--scales", help="Factors by which each picture is resized, such as 1,0.7071,1.4142.")
]
Size = Annotated[int | None, typer.Option("--size", help="Pixels on the longest side of what the network reads.")]
Device = Annotated[str | None, typer.Option("--device", help="Where torch computes: cpu, cuda, mps.")]
Preprocessing = Annotated[
    Path | None,
    typer.Option("--preprocessing", help="JSON file that says what an .onnx model reads: docs/encoders.md."),
]
Whitened = Annotated[
    str | None,
    typer.Option("--whitening", help="Which whitening of a checkpoint to apply, such as retrieval-SfM-120k, or none."),
]
Content = Annotated[
    str | None, typer.Option("--content", help="pictures or texts, where a source could be read as both.")
]
TextColumn = Annotated[str | None, typer.Option("--column", help="The column of a table that holds the texts.")]
TextIds = Annotated[str | None, typer.Option("--id-column", help="The column of a table that names them.")]


FLAGS = {
    "model": Model, "weights": WeightsFile, "scales": Scales, "size": Size, "preprocessing": Preprocessing,
    "whitening": Whitened, "device": Device,
}  # fmt: skip


def with_encoder(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the flags of an encoder behind its `encoder`, in place of its parameter `options`."""
    hints = get_type_hints(command, include_extras=True)
    own = [one for one in signature(command).parameters.values() if one.name != "options"]
    place = [one.name for one in own].index("encoder") + 1
    added = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=None) for name in FLAGS]
    names = [one.name for one in own]

    @wraps(command)
    def called(**given: Any) -> None:
        options = options_of(**{name: given[name] for name in FLAGS})
        command(**{name: given[name] for name in names}, options=options)

    kinds = {**{name: hints[name] for name in names}, **FLAGS}
    every = [one.replace(annotation=kinds[one.name]) for one in (*own[:place], *added, *own[place:])]
    called.__signature__ = Signature(every)  # type: ignore[attr-defined]
    called.__annotations__ = {**kinds, "return": None}
    del called.__wrapped__
    return called


def options_of(
    model: str | None,
    weights: Path | None,
    scales: str | None,
    size: int | None,
    device: str | None,
    preprocessing: Path | None,
    whitening: str | None,
) -> Options:
    """What an encoder is given, from the flags; files by their whole paths, because it may be opened elsewhere."""
    return Options(
        model=os.path.abspath(model) if model and os.path.isdir(model) else model,
        weights=None if weights is None else str(weights.absolute() if weights.exists() else weights),
        scales=None if scales is None else tuple(_factor(word) for word in words(scales)),
        size=size,
        device=device,
        preprocessing=None if preprocessing is None else str(preprocessing.absolute()),
        whitening=whitening,
    )


def _factor(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        raise ValueError(f"--scales has {word!r}, which is no number; give factors such as 1,0.7071,1.4142") from None
