"""Options of encoders, shared by all commands that encode images or texts."""

from __future__ import annotations

import os

from kinrank.cli.input_files import parse_numbers
from kinrank.cli.option_groups import File, OptionGroup, option
from kinrank.encoders import ENCODERS, Options


class EncoderOptions(OptionGroup):
    """Name of an encoder, and its options."""

    title = "Encoder"
    encoder: str | None = option(
        None,
        f"Encoder: {' | '.join(ENCODERS)}, or your own function as package.module:function. Default: "
        "efficientnet-lite for images, minilm for texts.",
    )
    model: str | None = option(None, "Model of the library, such as resnet50 for timm.")
    weights: File = option(None, "File of weights: .onnx, or the checkpoint of a published network.")
    scales: str | None = option(None, "Factors by which each image is resized, such as 1,0.7071,1.4142.")
    size: int | None = option(None, "Pixels on the longest side of the images the network reads.")
    preprocessing: File = option(None, "JSON file that describes the input of an .onnx model: docs/encoders.md.")
    whitening: str | None = option(None, "Whitening of a checkpoint to apply, such as retrieval-SfM-120k, or none.")
    device: str | None = option(None, "Device of torch: cpu, cuda, mps.")

    @property
    def options(self) -> Options:
        """The options, with absolute paths, because the encoder may be opened in another folder."""
        model, weights = self.model, self.weights
        return Options(
            model=os.path.abspath(model) if model and os.path.isdir(model) else model,
            weights=None if weights is None else str(weights.absolute() if weights.exists() else weights),
            scales=None if self.scales is None else tuple(parse_numbers(self.scales, "scales")),
            size=self.size,
            device=self.device,
            preprocessing=None if self.preprocessing is None else str(self.preprocessing.absolute()),
            whitening=self.whitening,
        )


class ContentOptions(OptionGroup):
    """Kind of a source of images or texts, and its columns."""

    title = "Images and texts"
    content: str | None = option(None, "pictures or texts, if the source could be either.")
    column: str | None = option(None, "Column of a table with the texts.")
    id_column: str | None = option(None, "Column of a table with their ids.")
