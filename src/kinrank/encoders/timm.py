"""TimmEncoder: an image encoder over a timm model, with weights from a file or the hub cache."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kinrank.encoders.base import PICTURES, Encoder, Options, weights_checksum
from kinrank.encoders.hub_cache import find_cached_file
from kinrank.encoders.torch_utils import crop_long_image, run_network, select_device, unknown_model_error
from kinrank.errors import InputError
from kinrank.files.path_checks import check_regular_file
from kinrank.lazy_import import import_extra
from kinrank.vector_input import Vectors

NAME = "timm"
HUB_FILE_NAMES = ("model.safetensors", "pytorch_model.bin")  # of weights on the hub


class TimmEncoder(Encoder):
    """Returns the input of the classifier of a model, with the preprocessing of timm for this model."""

    kinds = (PICTURES,)

    def __init__(self, model: str, weights: Path, device: str | None) -> None:
        library, torch = (
            import_extra("timm", f"the encoder {NAME}", NAME),
            import_extra("torch", f"the encoder {NAME}", NAME),
        )
        self._device = select_device(device, NAME)
        network = _fill_network(library.create_model(model, pretrained=False, num_classes=0), weights)
        self._network = network.to(self._device)
        config = library.data.resolve_model_data_config(network)
        self._transform = library.data.create_transform(**config, is_training=False)
        self.reads = round(max(config["input_size"][1:]) / config["crop_pct"])
        with torch.inference_mode():
            self.dimensions = self._network(torch.zeros(1, *config["input_size"], device=self._device)).shape[-1]
        self.facts = {
            "encoder": NAME,
            "model": model,
            "weights": weights_checksum(weights),
            **{key: list(value) if isinstance(value, tuple) else value for key, value in config.items()},
            "library": f"timm {library.__version__}",
        }

    def pictures(self, images: Sequence[Any]) -> Vectors:
        made = [self._transform(crop_long_image(image))[None] for image in images]
        return run_network(self._network, made, self._device, self.dimensions)


def open_with_options(options: Options) -> Encoder:
    """Open the encoder. Options: model, weights (a file; the downloaded ones by default), device."""
    options.allow_only(NAME, "model", "weights", "device")
    if not options.model:
        raise InputError(f"the encoder {NAME} needs `model`, such as resnet50.a1_in1k")
    library = import_extra("timm", f"the encoder {NAME}", NAME)
    if not library.is_model(options.model):
        raise unknown_model_error(options.model, "timm", library.list_models())
    weights = (
        _find_download(library, options.model) if options.weights is None else check_regular_file(Path(options.weights))
    )
    return TimmEncoder(options.model, weights, options.device)


def _find_download(library: Any, model: str) -> Path:
    """Return the cached weight file of a model. Raise InputError with the download command if there is none."""
    known = library.list_models(f"{model.split('.')[0]}.*", pretrained=True)
    if "." in model and model not in known:
        raise unknown_model_error(model, "timm with weights", known or library.list_models(pretrained=True))
    config = library.get_pretrained_cfg(model)
    if not getattr(config, "hf_hub_id", None):
        raise InputError("has no weights on the hub", parameter="model", given=model, remedy="give `weights`, a file")
    names = (config.hf_hub_filename,) if config.hf_hub_filename else HUB_FILE_NAMES
    found = find_cached_file(config.hf_hub_id, names, NAME, NAME)
    if found is None:
        raise InputError(
            f"the weights of `model={model!r}` are not on this machine",
            remedy=f"download them with: hf download {config.hf_hub_id}, or give `weights`, a file",
        )
    return found


def _fill_network(network: Any, weights: Path) -> Any:
    """Load weights into the network. The file must contain exactly its weights, and may contain a classifier."""
    from kinrank.encoders.torch_checkpoint import load_weights, read_checkpoint  # imports torch

    file = read_checkpoint(weights)
    if not set(network.state_dict()) <= set(file.weights):  # from another publisher: many models can rename the weights
        rename = getattr(sys.modules[type(network).__module__], "checkpoint_filter_fn", None)
        with contextlib.suppress(Exception):  # weights are missing: `load_weights` reports them
            file = file if rename is None else replace(file, weights=rename(dict(file.weights), network))
    heads = network.pretrained_cfg.get("classifier") or ()
    unused = tuple(f"{head}." for head in ((heads,) if isinstance(heads, str) else heads))
    return load_weights(network, file, f"{NAME} with this model", unused)
