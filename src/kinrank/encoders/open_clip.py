"""OpenClipEncoder: an encoder of images and texts over an OpenCLIP model, with weights from a file or the hub cache."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kinrank.encoders.base import PICTURES, TEXTS, Encoder, Options, weights_checksum
from kinrank.encoders.hub_cache import block_downloads, find_cached_file
from kinrank.encoders.torch_utils import (
    crop_long_image,
    first_error_line,
    run_network,
    select_device,
    unknown_model_error,
)
from kinrank.errors import InputError
from kinrank.files.path_checks import check_regular_file
from kinrank.lazy_import import import_extra
from kinrank.vector_input import Vectors

NAME = "open-clip"
HUB_FILE_NAMES = ("open_clip_model.safetensors", "open_clip_pytorch_model.bin")  # of weights on the hub
PREPROCESSING_KEYS = ("mean", "std", "interpolation", "resize_mode")  # in the configuration of published weights


class OpenClipEncoder(Encoder):
    """Encodes images and texts into one space, with the preprocessing of the library for the model.

    Args:
        model: name of the model in the library.
        weights: file with its weights.
        published: configuration of the weights in the library; empty for other weights.
        device: torch device.
    """

    kinds = (PICTURES, TEXTS)

    def __init__(self, model: str, weights: Path, published: dict[str, Any], device: str | None) -> None:
        library = import_extra("open_clip", f"the encoder {NAME}", NAME)
        self._device = select_device(device, NAME)
        from kinrank.encoders.torch_checkpoint import read_checkpoint  # imports torch

        read_checkpoint(weights)  # before the library does: for better errors, and to refuse files that execute code
        prepared = {f"image_{key}": published[key] for key in PREPROCESSING_KEYS if key in published}
        quick = bool(published.get("quick_gelu", False))
        try:
            with block_downloads():
                self._model, _, self._transform = library.create_model_and_transforms(
                    model, str(weights), device=self._device, force_quick_gelu=quick, weights_only=True, **prepared
                )
                self._tokenizer = library.get_tokenizer(model)
        except Exception as error:  # several libraries, each with its own types
            raise InputError(
                f"{weights} cannot be opened as `model={model!r}` ({first_error_line(error)})",
                remedy="give the weights of this model",
            ) from None
        self._model.eval()
        self.dimensions = int(self._encode_tokens(self._tokenizer(["a"])).shape[-1])
        self.reads = max(_to_pair(self._model.visual.image_size))
        self.facts = {
            "encoder": NAME,
            "model": model,
            "weights": weights_checksum(weights),
            "size": list(_to_pair(self._model.visual.image_size)),
            **{key: list(value) if isinstance(value, tuple) else value for key, value in prepared.items()},
            "quick_gelu": quick,
            "library": f"open_clip {library.__version__}",
        }

    def pictures(self, images: Sequence[Any]) -> Vectors:
        made = [self._transform(crop_long_image(image))[None] for image in images]
        return run_network(self._model.encode_image, made, self._device, self.dimensions)

    def texts(self, texts: Sequence[str]) -> Vectors:
        made = [self._tokenizer([text.encode("utf-8", "replace").decode()]) for text in texts]
        return run_network(self._model.encode_text, made, self._device, self.dimensions)

    def _encode_tokens(self, tokens: Any) -> Any:
        with import_extra("torch", f"the encoder {NAME}", NAME).inference_mode():
            return self._model.encode_text(tokens.to(self._device))


def open_with_options(options: Options) -> Encoder:
    """Open the encoder. Options: model, weights (a file, or the name of downloaded published weights), device."""
    options.allow_only(NAME, "model", "weights", "device")
    if not options.model:
        raise InputError(f"the encoder {NAME} needs `model`, such as ViT-B-32")
    library = import_extra("open_clip", f"the encoder {NAME}", NAME)
    if options.model not in library.list_models():
        raise unknown_model_error(options.model, "open_clip", library.list_models())
    tags = library.list_pretrained_tags_by_model(options.model)
    listed = f"one of {', '.join(tags)}" if tags else "this model has none"
    if options.weights is None:
        raise InputError(f"the encoder {NAME} needs `weights`, a file or the name of published weights ({listed})")
    if options.weights in tags:
        published = library.get_pretrained_cfg(options.model, options.weights)
        weights = _find_download(published, options.model, options.weights)
        return OpenClipEncoder(options.model, weights, published, options.device)
    if not os.path.exists(options.weights):
        raise InputError(
            f"is neither a file nor the name of published weights ({listed})",
            parameter="weights",
            given=options.weights,
        )
    return OpenClipEncoder(options.model, check_regular_file(Path(options.weights)), {}, options.device)


def _find_download(published: dict[str, Any], model: str, tag: str) -> Path:
    """Return the cached file of published weights. Raise InputError with the download command if there is none."""
    repository, name = os.path.split(published.get("hf_hub", ""))
    if not repository:
        raise InputError(
            f"of {model} is not on the hub",
            parameter="weights",
            given=tag,
            remedy="download the weights, and give `weights`, the file",
        )
    alternative = (f"{os.path.splitext(name)[0]}.safetensors", name) if name else HUB_FILE_NAMES
    found = find_cached_file(repository, alternative, NAME, NAME)
    if found is None:
        raise InputError(
            f"of {model} is not on this machine",
            parameter="weights",
            given=tag,
            remedy=f"download it with: hf download {repository}, or give a file",
        )
    return found


def _to_pair(size: Any) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else (int(size[0]), int(size[1]))
