"""A network, its loss and lists -> its weights after the last step. Imported late, as all that imports torch."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from kinrank.features import Vectors
from kinrank.learned.lists import Lists, passes
from kinrank.learned.options import Recipe
from kinrank.progress import Progress

# Networks this small gain little by two threads, which wait for each other for minutes on a busy machine; and with one
# sums are taken in the same order everywhere.
THREADS = 1
WARM_UP = 0.1  # share of the steps in which the rate grows
Parameters = dict[str, Tensor]
Loss = Callable[[Parameters, dict[str, Any], Tensor, Tensor, float], Tensor]


class Network(Protocol):
    """A module with `start` (sizes) -> parameters, and `loss` (parameters, sizes, rows, signs, dropout) -> a number.

    rows (b, k + 1, d): of each list the query, then its items; signs (b, k): which items are relevant, see `Lists`.
    """

    start: Callable[[dict[str, Any]], Parameters]
    loss: Loss


class Trained(NamedTuple):
    """What was learned, and after how many steps; `steps` < `planned` where it was stopped."""

    arrays: dict[str, Any]
    steps: int
    planned: int


def trained(
    network: Network, sizes: dict[str, Any], recipe: Recipe, rows: Vectors, lists: Lists, seed: int, report: Progress
) -> Trained:
    """The weights after the last step, or, where a user interrupts, after the last one that was finished."""
    planned = -(-recipe.lists // recipe.batch)
    with _own_state(seed):
        weights = network.start(sizes)
        for parameter in weights.values():
            parameter.requires_grad_()
        optimizer = _adam(weights, recipe)
        last = Trained({}, 0, planned)
        batches = passes(len(lists.queries), recipe.lists, recipe.batch, seed)
        try:
            for step, places in enumerate(report.each(f"fitting {recipe.method}", batches, planned)):
                for group in optimizer.param_groups:
                    group["lr"] = recipe.rate * rate_at(step, planned)
                _step(network, weights, sizes, recipe, rows, lists.take(places), optimizer)
                last = Trained(
                    {name: array.detach().numpy().copy() for name, array in weights.items()}, step + 1, planned
                )
        except KeyboardInterrupt:
            if not last.steps:
                raise
    return last


def rate_at(step: int, planned: int) -> float:
    """Share of the rate at a step, from 0: growing to 1 over the first tenth, then along a cosine to 0.

    Example:
        >>> [round(rate_at(step, 20), 2) for step in (0, 1, 2, 11, 19)]
        [0.5, 1.0, 1.0, 0.5, 0.01]
    """
    warm = max(1, round(WARM_UP * planned))
    if step < warm:
        return (step + 1) / warm
    return 0.5 + 0.5 * math.cos(math.pi * (step - warm) / (planned - warm))


def _step(
    network: Network,
    weights: Parameters,
    sizes: dict[str, Any],
    recipe: Recipe,
    rows: Vectors,
    lists: Lists,
    optimizer: torch.optim.Optimizer,
) -> None:
    """One step down the loss of a batch; a ValueError, and nothing changed, where that is no number."""
    vectors = torch.from_numpy(rows[np.concatenate([lists.queries[:, None], lists.items], axis=1)])
    optimizer.zero_grad()
    loss = network.loss(weights, sizes, vectors, torch.from_numpy(lists.signs), recipe.dropout)
    loss.backward()
    length = torch.nn.utils.clip_grad_norm_(weights.values(), math.inf if recipe.clip is None else recipe.clip)
    if not (math.isfinite(loss.item()) and math.isfinite(length.item())):
        raise ValueError(
            f"fit {recipe.method}: the loss is no longer a number, so nothing was written; give another seed or a "
            "smaller network, and look for odd rows in features"
        )
    optimizer.step()


def _adam(weights: Parameters, recipe: Recipe) -> torch.optim.Optimizer:
    """Adam; decay acts on matrices alone."""
    matrices = [parameter for parameter in weights.values() if parameter.ndim > 1]
    others = [parameter for parameter in weights.values() if parameter.ndim < 2]
    groups = [{"params": matrices, "weight_decay": recipe.decay}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=recipe.rate)


@contextlib.contextmanager
def _own_state(seed: int) -> Iterator[None]:
    """torch as training needs it, and as the caller had it afterwards: random numbers, threads, gradients."""
    threads = torch.get_num_threads()
    with (
        torch.inference_mode(False),
        torch.enable_grad(),
        torch.autocast("cpu", enabled=False),
        torch.random.fork_rng(devices=[]),
    ):
        torch.random.default_generator.manual_seed(seed)  # this one alone: torch.manual_seed would reach every device
        torch.set_num_threads(THREADS)
        try:
            yield
        finally:
            torch.set_num_threads(threads)
