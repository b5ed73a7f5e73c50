"""A model of timm with weights from a file, or downloaded before -> an encoder of pictures."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kinrank.deferred import needed
from kinrank.encoders.base import PICTURES, Encoder, Options, checksum
from kinrank.encoders.hub import cached_file
from kinrank.encoders.on_torch import bounded, device_of, rows_of, unknown, weights_of
from kinrank.features import Vectors
from kinrank.files.opening import regular

if TYPE_CHECKING:
    from kinrank.encoders.networks.checkpoint import Checkpoint

NAME = "timm"
FILES = ("model.safetensors", "pytorch_model.bin")  # by which the hub has the weights of timm


class TimmEncoder(Encoder):
    """What a model of the library gives to its classifier; pictures are prepared as the library says for that model."""

    kinds = (PICTURES,)

    def __init__(self, model: str, weights: Path, device: str | None) -> None:
        library, torch = needed("timm", f"the encoder {NAME}", NAME), needed("torch", f"the encoder {NAME}", NAME)
        self._device = device_of(device, NAME)
        network = _filled(library.create_model(model, pretrained=False, num_classes=0), weights_of(weights))
        self._network = network.to(self._device)
        config = library.data.resolve_model_data_config(network)
        self._transform = library.data.create_transform(**config, is_training=False)
        self.reads = round(max(config["input_size"][1:]) / config["crop_pct"])
        with torch.inference_mode():
            self.dimensions = self._network(torch.zeros(1, *config["input_size"], device=self._device)).shape[-1]
        self.facts = {
            "encoder": NAME,
            "model": model,
            "weights": checksum(weights),
            **{key: list(value) if isinstance(value, tuple) else value for key, value in config.items()},
            "library": f"timm {library.__version__}",
        }

    def pictures(self, images: Sequence[Any]) -> Vectors:
        made = [self._transform(bounded(image))[None] for image in images]
        return rows_of(self._network, made, self._device, self.dimensions)


def opened(options: Options) -> Encoder:
    """The encoder over model=, with the weights in the file weights=, or with those that were downloaded before."""
    options.only(NAME, "model", "weights", "device")
    if not options.model:
        raise ValueError(f"the encoder {NAME} needs model=, such as resnet50.a1_in1k")
    library = needed("timm", f"the encoder {NAME}", NAME)
    if not library.is_model(options.model):
        raise unknown(options.model, "timm", library.list_models())
    weights = _downloaded(library, options.model) if options.weights is None else regular(Path(options.weights))
    return TimmEncoder(options.model, weights, options.device)


def _downloaded(library: Any, model: str) -> Path:
    """The file of a model's weights in the folder of the hub, or a ValueError that says how it gets there."""
    known = library.list_models(f"{model.split('.')[0]}.*", pretrained=True)
    if "." in model and model not in known:
        raise unknown(model, "timm with weights", known or library.list_models(pretrained=True))
    config = library.get_pretrained_cfg(model)
    if not getattr(config, "hf_hub_id", None):
        raise ValueError(f"there are no weights of model={model!r} on the hub; give weights=, a file of them")
    names = (config.hf_hub_filename,) if config.hf_hub_filename else FILES
    found = cached_file(config.hf_hub_id, names, NAME, NAME)
    if found is None:
        raise ValueError(
            f"the weights of model={model!r} are not on this machine; fetch them with: hf download {config.hf_hub_id}, "
            "or give weights=, a file of them"
        )
    return found


def _filled(network: Any, file: Checkpoint) -> Any:
    """The network with its weights; all that it has must be in the file, and nothing else but a classifier."""
    from kinrank.encoders.networks.filling import filled

    if not set(network.state_dict()) <= set(file.weights):  # as others published them: many models can rename those
        rename = getattr(sys.modules[type(network).__module__], "checkpoint_filter_fn", None)
        with contextlib.suppress(Exception):  # it expects what is not there: `filled` says what that is
            file = file if rename is None else replace(file, weights=rename(dict(file.weights), network))
    heads = network.pretrained_cfg.get("classifier") or ()
    unused = tuple(f"{head}." for head in ((heads,) if isinstance(heads, str) else heads))
    return filled(network, file, f"{NAME} with this model", unused)
