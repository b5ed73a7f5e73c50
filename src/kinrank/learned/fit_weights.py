"""Fitting of a learned method: features and labels in, a file of weights and the method out."""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kinrank import weight_files
from kinrank.errors import InputError, MemoryLimitError
from kinrank.files.atomic import check_writable
from kinrank.files.checksummed_npz import check_ending
from kinrank.lazy_import import import_extra
from kinrank.learned.recipes import RECIPES, Recipe
from kinrank.learned.training_data import (
    PSEUDO,
    LabelMatches,
    Matches,
    encode_labels,
    find_mutual_pairs,
    gather_lists,
    is_pseudo,
)
from kinrank.memory_limit import default_limit_bytes, format_bytes
from kinrank.methods import GSS, LAttQE, Method, resolve_method
from kinrank.methods.learned_method import LearnedMethod
from kinrank.progress import Progress, ProgressOption
from kinrank.vector_input import Vectors, check_vectors, to_unit_rows

MIN_ITEMS = 3  # a query, a relevant item, and an irrelevant one


def fit(
    method: Method | str,
    features: ArrayLike,
    labels: ArrayLike | str,
    *,
    path: str | os.PathLike[str],
    seed: int = 0,
    progress: ProgressOption = None,
    **options: Any,
) -> Method:
    """Learn the weights of CSA, SSR or LAttQE, write them to a file, and return the method that ranks by them.

    Every item with a known label is a query against the others, in `lists` lists of its nearest items; the weights
    after the last step are used. Needs torch (the extra `torch`); the returned method ranks without it.
    The same seed and input give the same file on the same machine. A user who interrupts (Ctrl-C) gets the weights
    after the last complete step, a warning, and a note in the record.

    Args:
        method: the method to fit, or its name; its own parameters stay unchanged.
        features: (n, d) rows; not changed. They are compared by direction, as in `rerank`.
        labels: (n,) whole numbers, -1 if unknown, or texts, "" if unknown; or the word "pseudo": then two items
            are relevant to each other if each is among the 20 nearest of the other by LPMT. An item with unknown label
            is in the lists of others, but is not a query, and counts as neither right nor wrong.
        path: the .npz file to write; an existing file is replaced at the end, or not at all.
        seed: start of the random numbers.
        progress: True for a bar, or a callable `f(label, done, total)`.
        options: the sizes of the network and `lists`, see `kinrank.learned.RECIPES`.

    Raises:
        InputError: nothing can be learned from the input; raised before training starts.

    Example:
        >>> csa = kinrank.fit(kinrank.methods.CSA(), features, labels, path="csa.npz")
        >>> ranking = kinrank.rerank(queries, gallery, csa)
    """
    learned = check_learned_method(method)
    if isinstance(learned, LAttQE):
        options.setdefault("k", learned.k)
    recipe: Recipe = RECIPES[learned.weights_name].of(options)
    place = check_destination(path)
    start = _check_seed(seed)
    rows = to_unit_rows(check_vectors(features, "features"), "features")
    if len(rows) < MIN_ITEMS:
        raise InputError(
            f"has {len(rows)} rows, and there is nothing to learn from fewer than {MIN_ITEMS}",
            parameter="features",
            allowed="more",
        )
    sizes = recipe.sizes(rows.shape[1])
    _check_memory(recipe, rows)
    matches: Matches | None = None if is_pseudo(labels) else LabelMatches(encode_labels(labels, len(rows)))
    torch = import_extra("torch", f"fitting {recipe.method}", "torch")
    matches = find_mutual_pairs(rows, progress) if matches is None else matches
    candidates = min(recipe.candidates, len(rows) - 1)
    lists = gather_lists(rows, matches, candidates, recipe.lists, recipe.batch, recipe.hard, start)
    modules = ("learned.torch_trainer", f"methods.{learned.weights_name}.training")  # they import torch
    trainer, network = (import_module(f"kinrank.{name}") for name in modules)
    result = trainer.train_network(network, sizes, recipe, rows, lists, start, Progress(progress))
    record = {
        "method": learned.weights_name,
        "labels": PSEUDO if is_pseudo(labels) else "given",
        "recipe": recipe.settings(),
        "seed": start,
        "items": len(rows),
        "dimensions": rows.shape[1],
        "steps": result.steps,
        "of_steps": result.planned,
        "stopped_early": result.steps < result.planned,
        "versions": list_versions(torch),
    }
    arrays = {name: result.arrays[name] for name in learned.layout(sizes)}
    weight_files.save(place, arrays, sizes, record)
    if result.steps < result.planned:
        warnings.warn(
            f"fitting {recipe.method} was stopped after {result.steps} of {result.planned} steps; {place} holds the "
            "weights of that step",
            stacklevel=2,
        )
    ready = replace(learned, weights=str(place))
    if isinstance(ready, LAttQE):  # with as many neighbours as the weights were fitted for
        ready = replace(ready, k=sizes["k"], kdba=min(ready.kdba, sizes["k"] + 1))
    return ready


def check_learned_method(method: Method | str) -> LearnedMethod:
    """Return the method if its weights can be fitted here; raise an InputError otherwise."""
    resolved = resolve_method(method)
    if isinstance(resolved, LearnedMethod) and resolved.weights_name in RECIPES:
        return resolved
    why = "learns from the gallery that it ranks" if isinstance(resolved, GSS) else "has nothing to fit"
    raise InputError(f"{type(resolved).__name__} {why}", allowed=f"one of: {', '.join(RECIPES)}")


def check_destination(path: str | os.PathLike[str]) -> Path:
    """Return the path of a file of weights if it can be written, so that the error does not come after the training."""
    if not isinstance(path, (str, os.PathLike)):
        raise InputError(parameter="path", given=path, allowed="the path of the .npz file to write")
    return check_writable(check_ending(Path(path), weight_files.FILE_WORDS))


def list_versions(torch: Any) -> dict[str, str]:
    """Return the versions of the packages that make the weights; kinrank is imported late to avoid a cycle."""
    ours = import_module("kinrank").__version__
    return {"kinrank": ours, "numpy": np.__version__, "torch": str(torch.__version__)}


def _check_seed(seed: Any) -> int:
    if isinstance(seed, (int, np.integer)) and not isinstance(seed, bool) and 0 <= int(seed) < 2**63:
        return int(seed)
    raise InputError(parameter="seed", given=seed, allowed=f"a whole number from 0 to {2**63 - 1}")


def _check_memory(recipe: Recipe, rows: Vectors) -> None:
    """Refuse a fit that exceeds the memory of this machine before anything is allocated."""
    lists = 12 * min(recipe.lists, len(rows)) * min(recipe.candidates, len(rows))
    taken, free = lists + 8 * recipe.lists + recipe.memory(rows.shape[1]), default_limit_bytes()
    if taken > free:
        raise MemoryLimitError(
            f"fitting {recipe.method} with these sizes takes about {format_bytes(taken)} but only "
            f"{format_bytes(free)} are free; give a smaller network, or fewer lists"
        )
