"""A model of OpenCLIP with weights from a file, or downloaded before -> an encoder of pictures and of texts."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kinrank.deferred import needed
from kinrank.encoders.base import PICTURES, TEXTS, Encoder, Options, checksum
from kinrank.encoders.hub import cached_file, offline
from kinrank.encoders.on_torch import bounded, device_of, first_line, rows_of, unknown, weights_of
from kinrank.features import Vectors
from kinrank.files.opening import regular

NAME = "open-clip"
FILES = ("open_clip_model.safetensors", "open_clip_pytorch_model.bin")  # by which the hub has the weights
PREPARATION = ("mean", "std", "interpolation", "resize_mode")  # what published weights say of pictures


class OpenClipEncoder(Encoder):
    """Pictures and texts in one space, prepared as the library says for that model.

    Args:
        model: its name in the library.
        weights: the file.
        published: what the library knows about the weights, if they are some that it lists.
        device: where torch computes.
    """

    kinds = (PICTURES, TEXTS)

    def __init__(self, model: str, weights: Path, published: dict[str, Any], device: str | None) -> None:
        library = needed("open_clip", f"the encoder {NAME}", NAME)
        self._device = device_of(device, NAME)
        weights_of(weights)  # before the library does, for its sentences; what wants to be executed ends here
        prepared = {f"image_{key}": published[key] for key in PREPARATION if key in published}
        quick = bool(published.get("quick_gelu", False))
        try:
            with offline():
                self._model, _, self._transform = library.create_model_and_transforms(
                    model, str(weights), device=self._device, force_quick_gelu=quick, weights_only=True, **prepared
                )
                self._tokenizer = library.get_tokenizer(model)
        except Exception as error:  # of several libraries, each with kinds of its own
            raise ValueError(
                f"{weights} cannot be opened as model={model!r} ({first_line(error)}); give the weights of this model"
            ) from None
        self._model.eval()
        self.dimensions = int(self._encoded_texts(self._tokenizer(["a"])).shape[-1])
        self.reads = max(_pair(self._model.visual.image_size))
        self.facts = {
            "encoder": NAME,
            "model": model,
            "weights": checksum(weights),
            "size": list(_pair(self._model.visual.image_size)),
            **{key: list(value) if isinstance(value, tuple) else value for key, value in prepared.items()},
            "quick_gelu": quick,
            "library": f"open_clip {library.__version__}",
        }

    def pictures(self, images: Sequence[Any]) -> Vectors:
        made = [self._transform(bounded(image))[None] for image in images]
        return rows_of(self._model.encode_image, made, self._device, self.dimensions)

    def texts(self, texts: Sequence[str]) -> Vectors:
        made = [self._tokenizer([text.encode("utf-8", "replace").decode()]) for text in texts]
        return rows_of(self._model.encode_text, made, self._device, self.dimensions)

    def _encoded_texts(self, tokens: Any) -> Any:
        with needed("torch", f"the encoder {NAME}", NAME).inference_mode():
            return self._model.encode_text(tokens.to(self._device))


def opened(options: Options) -> Encoder:
    """The encoder over model=; weights= is a file, or the name of published weights that were downloaded before."""
    options.only(NAME, "model", "weights", "device")
    if not options.model:
        raise ValueError(f"the encoder {NAME} needs model=, such as ViT-B-32")
    library = needed("open_clip", f"the encoder {NAME}", NAME)
    if options.model not in library.list_models():
        raise unknown(options.model, "open_clip", library.list_models())
    tags = library.list_pretrained_tags_by_model(options.model)
    listed = f"one of {', '.join(tags)}" if tags else "there are no published ones of this model"
    if options.weights is None:
        raise ValueError(f"the encoder {NAME} needs weights=, a file or the name of published ones ({listed})")
    if options.weights in tags:
        published = library.get_pretrained_cfg(options.model, options.weights)
        weights = _downloaded(published, options.model, options.weights)
        return OpenClipEncoder(options.model, weights, published, options.device)
    if not os.path.exists(options.weights):
        raise ValueError(f"weights={options.weights!r} is neither a file nor the name of published weights ({listed})")
    return OpenClipEncoder(options.model, regular(Path(options.weights)), {}, options.device)


def _downloaded(published: dict[str, Any], model: str, tag: str) -> Path:
    """The file of published weights in the folder of the hub, or a ValueError that says how it gets there."""
    repository, name = os.path.split(published.get("hf_hub", ""))
    if not repository:
        raise ValueError(f"weights={tag!r} of {model} are not on the hub; download them, and give weights= the file")
    alternative = (f"{os.path.splitext(name)[0]}.safetensors", name) if name else FILES
    found = cached_file(repository, alternative, NAME, NAME)
    if found is None:
        raise ValueError(
            f"weights={tag!r} of {model} are not on this machine; fetch them with: hf download {repository}, or give "
            "weights= a file"
        )
    return found


def _pair(size: Any) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else (int(size[0]), int(size[1]))
