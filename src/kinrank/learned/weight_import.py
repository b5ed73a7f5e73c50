"""Import of weights from checkpoints of the published programs of CSA and SSR; nothing is executed."""

from __future__ import annotations

import os
import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank import weight_files
from kinrank.errors import InputError, UnreadableFileError
from kinrank.files.atomic import resolve_path
from kinrank.lazy_import import import_extra
from kinrank.learned.fit_weights import check_destination, check_learned_method, list_versions
from kinrank.learned.recipes import IMPORTS
from kinrank.methods import LAttQE, Method

Arrays = dict[str, NDArray[np.float32]]
TRAINING_ONLY = {"csa": r"feature_align\.layers\.0\.(weight|bias)", "ssr": "scale_cls"}


def import_weights(
    method: Method | str, checkpoint: str | os.PathLike[str], path: str | os.PathLike[str], **options: Any
) -> Method:
    """Convert weights that a published program of CSA or SSR trained, and return the method that ranks by them.

    Needs torch to read the checkpoint. Sizes follow from shapes; settings that shapes do not determine are options.

    Args:
        method: CSA or SSR, or the name of one; its own parameters stay unchanged.
        checkpoint: a file of torch.save: the state_dict, or a dict that holds it.
        path: the .npz file to write.
        options: CSA `heads=12`; SSR `lr=1e-4`, `steps=1`, `variant="published"`, which must be those of its training.

    Example:
        >>> csa = kinrank.learned.import_weights(kinrank.methods.CSA(top=1024), "checkpoint.pth.tar", "csa.npz")
    """
    learned = check_learned_method(method)
    if isinstance(learned, LAttQE):
        raise InputError("LAttQE has no published weights to import", remedy="fit some from features and labels")
    name = learned.name
    chosen = asdict(IMPORTS[name].of(options))
    place = check_destination(path)
    if resolve_path(place) == resolve_path(checkpoint):
        raise InputError(
            f"{place} is the checkpoint itself, which would be overwritten", remedy="choose another `path`"
        )
    torch = import_extra("torch", f"importing weights of {type(learned).__name__}", "torch")
    from kinrank.encoders.torch_checkpoint import read_checkpoint

    source = read_checkpoint(Path(checkpoint)).weights
    arrays: Arrays = {
        key: value.detach().float().numpy()
        for key, value in source.items()
        if not re.fullmatch(TRAINING_ONLY[name], key)
    }
    sizes = {"csa": _read_csa_sizes, "ssr": _read_ssr_sizes}[name](arrays, chosen, Path(checkpoint))
    shapes, hint = (
        learned.layout(sizes),
        f"give a checkpoint of {type(learned).__name__} as its authors' program writes it",
    )
    weight_files.check_arrays(arrays, shapes, str(checkpoint), hint)
    record = {"method": name, "labels": "published", "recipe": chosen, "versions": list_versions(torch)}
    weight_files.save(place, {name: arrays[name] for name in shapes}, sizes, record)
    return replace(learned, weights=str(place))


def _read_csa_sizes(arrays: Arrays, chosen: dict[str, Any], checkpoint: Path) -> dict[str, Any]:
    width, anchors = _read_matrix_shape(arrays, "topk_proj.weight", checkpoint, "CSA")
    numbers = {int(match[1]) for key in arrays if (match := re.match(r"blocks\.(\d{1,6})\.", key))}
    if not numbers:
        raise UnreadableFileError(f"{checkpoint} has no array 'blocks.0.norm1.weight'; give a checkpoint of CSA")
    if width % chosen["heads"]:
        raise InputError(
            f"does not divide the width {width} of the weights in {checkpoint}",
            parameter="heads",
            given=chosen["heads"],
            allowed="the number of heads that they were trained with",
        )
    return {"anchors": anchors, "width": width, "depth": len(numbers), "heads": chosen["heads"]}


def _read_ssr_sizes(arrays: Arrays, chosen: dict[str, Any], checkpoint: Path) -> dict[str, Any]:
    name = "dni_query.layer1.1.weight"
    hidden, seen = _read_matrix_shape(arrays, name, checkpoint, "SSR")
    if seen % 2 == 0 or seen < 3:
        raise UnreadableFileError(
            f"{checkpoint}: {name} has {seen} columns, and SSR has 2 top + 1; give a checkpoint of SSR"
        )
    return {"top": (seen - 1) // 2, "hidden": hidden, **chosen}


def _read_matrix_shape(arrays: Arrays, name: str, checkpoint: Path, method: str) -> tuple[int, int]:
    """Return the shape of the array that determines the sizes."""
    if name not in arrays:
        raise UnreadableFileError(f"{checkpoint} has no array {name!r}; give a checkpoint of {method}")
    if arrays[name].ndim != 2 or not arrays[name].size:
        raise UnreadableFileError(f"{checkpoint}: {name} has shape {arrays[name].shape}; give a checkpoint of {method}")
    rows, columns = arrays[name].shape
    return rows, columns
