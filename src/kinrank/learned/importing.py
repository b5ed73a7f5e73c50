"""A checkpoint of a published program -> a file of weights, and the method that ranks by it; nothing is executed."""

from __future__ import annotations

import os
import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank import stages, weights
from kinrank.deferred import needed
from kinrank.files.opening import FileProblem
from kinrank.files.paths import resolved
from kinrank.learned.fitting import destination, learned_method, versions
from kinrank.learned.recipes import IMPORTS
from kinrank.methods import LAttQE, Method

Arrays = dict[str, NDArray[np.float32]]
TRAINING_ONLY = {"csa": r"feature_align\.layers\.0\.(weight|bias)", "ssr": "scale_cls"}


def import_weights(
    method: Method | str, checkpoint: str | os.PathLike[str], path: str | os.PathLike[str], **options: Any
) -> Method:
    """Take over weights that a published program of CSA or SSR trained, and return the method that ranks by them.

    Needs torch, to read the checkpoint. Sizes follow from shapes; what these do not tell is an option.

    Args:
        method: CSA or SSR, or the name of one; its own parameters stay as they are.
        checkpoint: what torch.save wrote: the state_dict, or a dict that holds it.
        path: the .npz file to write.
        options: CSA `heads=12`; SSR `lr=1e-4`, `steps=1`, `variant="published"`, which must be those of its training.

    Example:
        >>> csa = kinrank.import_weights(kinrank.CSA(top=1024), "checkpoint.pth.tar", "csa.npz")
    """
    learned = learned_method(method)
    if isinstance(learned, LAttQE):
        raise ValueError("LAttQE has no published weights to import; fit some from features and labels")
    name = learned.name
    chosen = asdict(IMPORTS[name].of(options))
    place = destination(path)
    if resolved(place) == resolved(checkpoint):
        raise ValueError(f"{place} is the checkpoint itself, which would be overwritten; choose another path")
    torch = needed("torch", f"importing weights of {type(learned).__name__}", "torch")
    from kinrank.encoders.networks.checkpoint import read

    source = read(Path(checkpoint)).weights
    arrays: Arrays = {
        key: value.detach().float().numpy()
        for key, value in source.items()
        if not re.fullmatch(TRAINING_ONLY[name], key)
    }
    sizes = {"csa": _csa_sizes, "ssr": _ssr_sizes}[name](arrays, chosen, Path(checkpoint))
    stage = getattr(stages, name)
    kept = _checked(arrays, stage.layout(sizes), Path(checkpoint), type(learned).__name__)
    record = {"method": name, "labels": "published", "recipe": chosen, "versions": versions(torch)}
    weights.save(place, kept, sizes, record)
    return replace(learned, weights=str(place))


def _csa_sizes(arrays: Arrays, chosen: dict[str, Any], checkpoint: Path) -> dict[str, Any]:
    width, anchors = _matrix(arrays, "topk_proj.weight", checkpoint, "CSA")
    numbers = {int(found[1]) for key in arrays if (found := re.match(r"blocks\.(\d{1,6})\.", key))}
    if not numbers:
        raise FileProblem(f"{checkpoint} has no array 'blocks.0.norm1.weight'; give a checkpoint of CSA")
    if width % chosen["heads"]:
        raise ValueError(
            f"heads={chosen['heads']} do not divide the width {width} of the weights in {checkpoint}; give the number "
            "of heads they were trained with"
        )
    return {"anchors": anchors, "width": width, "depth": len(numbers), "heads": chosen["heads"]}


def _ssr_sizes(arrays: Arrays, chosen: dict[str, Any], checkpoint: Path) -> dict[str, Any]:
    name = "dni_query.layer1.1.weight"
    hidden, seen = _matrix(arrays, name, checkpoint, "SSR")
    if seen % 2 == 0 or seen < 3:
        raise FileProblem(f"{checkpoint}: {name} has {seen} columns, and SSR has 2 top + 1; give a checkpoint of SSR")
    return {"top": (seen - 1) // 2, "hidden": hidden, **chosen}


def _matrix(arrays: Arrays, name: str, checkpoint: Path, method: str) -> tuple[int, int]:
    """The shape of the array that tells the sizes."""
    if name not in arrays:
        raise FileProblem(f"{checkpoint} has no array {name!r}; give a checkpoint of {method}")
    if arrays[name].ndim != 2 or not arrays[name].size:
        raise FileProblem(f"{checkpoint}: {name} has shape {arrays[name].shape}; give a checkpoint of {method}")
    rows, columns = arrays[name].shape
    return rows, columns


def _checked(arrays: Arrays, shapes: dict[str, tuple[int, ...]], checkpoint: Path, method: str) -> Arrays:
    """The arrays in the order of their shapes, or a FileProblem for the first that is missing, foreign or wrong."""
    again = f"give a checkpoint of {method} as its authors' program writes it"
    for name, shape in shapes.items():
        if name not in arrays:
            raise FileProblem(f"{checkpoint} lacks the array {name!r}; {again}")
        if arrays[name].shape != shape:
            raise FileProblem(f"{checkpoint}: {name} has shape {arrays[name].shape}, and must have {shape}; {again}")
        if not np.isfinite(arrays[name]).all():
            raise FileProblem(f"{checkpoint}: {name} contains NaN or Inf; {again}")
    foreign = sorted(set(arrays) - set(shapes))
    if foreign:
        raise FileProblem(f"{checkpoint} has the foreign array {foreign[0]!r}; {again}")
    return {name: arrays[name] for name in shapes}
