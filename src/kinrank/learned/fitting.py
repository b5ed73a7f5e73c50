"""Features and labels -> a file of weights, and the method that ranks by it."""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kinrank import stages, weights
from kinrank.deferred import needed
from kinrank.features import Vectors, check, unit
from kinrank.files.atomic import writable
from kinrank.files.sealed import ends_well
from kinrank.learned.lists import gathered
from kinrank.learned.options import Recipe
from kinrank.learned.recipes import RECIPES
from kinrank.learned.relevance import PSEUDO, ByLabel, Relevance, codes_of, is_pseudo, mutual
from kinrank.memory import NotEnoughMemory, allowed_bytes, in_words
from kinrank.methods import GSS, LAttQE, Method, resolve
from kinrank.methods.learned import Learned
from kinrank.progress import Progress, Show

FEWEST = 3  # items: a query, one that is relevant to it, and one that is not


def fit(
    method: Method | str,
    features: ArrayLike,
    labels: ArrayLike | str,
    path: str | os.PathLike[str],
    seed: int = 0,
    *,
    progress: Show = None,
    **options: Any,
) -> Method:
    """Learn the weights of CSA, SSR or LAttQE, write them to a file, and return the method that ranks by them.

    Every item of a known label is a query against the others, in `lists` lists of its nearest ones; the weights after
    the last step are kept. Needs torch (`pip install 'kinrank[torch]'`); what is returned answers without it. The same
    seed and input give the same file on the same machine. A user who interrupts (Ctrl-C) gets the weights after
    the last step that was finished, a warning, and a record that says so.

    Args:
        method: what to fit, or its name; its own parameters stay as they are.
        features: (n, d) rows; not changed. They are compared by direction, as `rerank` does.
        labels: (n,) whole numbers, -1 where one is not known, or texts, "" where not; or the word "pseudo": then items
            are relevant to each other that have each other among their 20 nearest by LPMT. An item of unknown label is
            in the lists of others, but no query, and neither right nor wrong.
        path: the .npz file to write; one that is there is replaced at the end, or not at all.
        seed: where random numbers start.
        progress: True for a bar, or a callable `f(label, done, total)`.
        options: the sizes of the network and `lists`, see `kinrank.learned.RECIPES`.

    Raises:
        ValueError: in one sentence, for whatever nothing can be learned from; before anything is trained.

    Example:
        >>> csa = kinrank.fit(kinrank.CSA(), features, labels, "csa.npz")
        >>> ranking = kinrank.rerank(queries, gallery, csa)
    """
    learned = learned_method(method)
    if isinstance(learned, LAttQE):
        options.setdefault("k", learned.k)
    recipe: Recipe = RECIPES[learned.fitted_as].of(options)
    place = destination(path)
    start = _seed(seed)
    rows = unit(check(features, "features"), "features")
    if len(rows) < FEWEST:
        raise ValueError(
            f"features has {len(rows)} rows, and there is nothing to learn from fewer than {FEWEST}; give more"
        )
    sizes = recipe.sizes(rows.shape[1])
    _check_memory(recipe, rows)
    relevance: Relevance | None = None if is_pseudo(labels) else ByLabel(codes_of(labels, len(rows)))
    torch = needed("torch", f"fitting {recipe.method}", "torch")
    relevance = mutual(rows, progress) if relevance is None else relevance
    candidates = min(recipe.candidates, len(rows) - 1)
    lists = gathered(rows, relevance, candidates, recipe.lists, recipe.batch, recipe.hard, start)
    late = ("training", learned.fitted_as)  # modules that import torch
    training, network = (import_module(f"kinrank.learned.{name}") for name in late)
    made = training.trained(network, sizes, recipe, rows, lists, start, Progress(progress))
    record = {
        "method": learned.fitted_as, "labels": PSEUDO if is_pseudo(labels) else "given", "recipe": recipe.settings(),
        "seed": start, "items": len(rows),
        "dimensions": rows.shape[1], "steps": made.steps, "of_steps": made.planned,
        "stopped_early": made.steps < made.planned, "versions": versions(torch),
    }  # fmt: skip
    kept = {name: made.arrays[name] for name in getattr(stages, learned.fitted_as).layout(sizes)}
    weights.save(place, kept, sizes, record)
    if made.steps < made.planned:
        warnings.warn(
            f"fitting {recipe.method} was stopped after {made.steps} of {made.planned} steps; {place} holds what was "
            "learned by then",
            stacklevel=2,
        )
    return _ready(learned, place, sizes)


def learned_method(method: Method | str) -> Learned:
    """The method, if it has weights that are fitted here; a ValueError for others."""
    found = resolve(method)
    if isinstance(found, Learned) and found.fitted_as in RECIPES:
        return found
    why = "learns by itself, from the gallery it ranks" if isinstance(found, GSS) else "has nothing to fit"
    raise ValueError(f"{type(found).__name__} {why}; give one of: {', '.join(RECIPES)}")


def destination(path: str | os.PathLike[str]) -> Path:
    """The path of a file of weights, if one can be written there: known now, not after minutes of training."""
    if not isinstance(path, (str, os.PathLike)):
        raise ValueError(f"path={path!r:.80} is not allowed; give the path of the .npz file to write")
    return writable(ends_well(Path(path), weights.WORDS))


def versions(torch: Any) -> dict[str, str]:
    """Of what made the weights; ours is looked up late, because it stands below this room."""
    ours = import_module("kinrank").__version__
    return {"kinrank": ours, "numpy": np.__version__, "torch": str(torch.__version__)}


def _ready(method: Learned, path: Path, sizes: dict[str, Any]) -> Method:
    """The method with its weights; LAttQE with as many neighbours as these were fitted for."""
    ready = replace(method, weights=str(path))
    if isinstance(ready, LAttQE):
        ready = replace(ready, k=sizes["k"], kdba=min(ready.kdba, sizes["k"] + 1))
    return ready


def _seed(seed: Any) -> int:
    if isinstance(seed, (int, np.integer)) and not isinstance(seed, bool) and 0 <= int(seed) < 2**63:
        return int(seed)
    raise ValueError(f"seed={seed!r} is not allowed; give a whole number from 0 to {2**63 - 1}")


def _check_memory(recipe: Recipe, rows: Vectors) -> None:
    """Refuse, before anything is allocated, what this machine has no memory for."""
    lists = 12 * min(recipe.lists, len(rows)) * min(recipe.candidates, len(rows))
    taken, free = lists + 8 * recipe.lists + recipe.memory(rows.shape[1]), allowed_bytes()
    if taken > free:
        raise NotEnoughMemory(
            f"fitting {recipe.method} with these sizes takes about {in_words(taken)} but only {in_words(free)} are "
            "free; give a smaller network, or fewer lists"
        )
