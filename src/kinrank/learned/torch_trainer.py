"""Training of a network with torch: optimiser, schedule and loop. Imported late."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from kinrank.errors import InputError
from kinrank.learned.recipes import Recipe
from kinrank.learned.training_data import TrainingLists, iterate_batches
from kinrank.progress import Progress
from kinrank.vector_input import Vectors

# Networks this small gain little from two threads, which wait for each other for minutes on a busy machine; and one
# thread adds in the same order everywhere.
TORCH_THREADS = 1
WARM_UP_SHARE = 0.1  # share of the steps during which the rate rises
Parameters = dict[str, Tensor]
Loss = Callable[[Parameters, dict[str, Any], Tensor, Tensor, float], Tensor]


class NetworkModule(Protocol):
    """Module with `start` (sizes) -> parameters, and `loss` (parameters, sizes, rows, signs, dropout) -> a number.

    rows (b, k + 1, d): of each list the query, then its items; signs (b, k), see
    `TrainingLists`.
    """

    start: Callable[[dict[str, Any]], Parameters]
    loss: Loss


class TrainingResult(NamedTuple):
    """Trained arrays and the number of steps; `steps` < `planned` if training was stopped."""

    arrays: dict[str, Any]
    steps: int
    planned: int


def train_network(
    network: NetworkModule,
    sizes: dict[str, Any],
    recipe: Recipe,
    rows: Vectors,
    lists: TrainingLists,
    seed: int,
    report: Progress,
) -> TrainingResult:
    """Return the weights after the last step, or after the last complete one if a user interrupts."""
    planned = -(-recipe.lists // recipe.batch)
    with _isolate_torch_state(seed):
        weights = network.start(sizes)
        for parameter in weights.values():
            parameter.requires_grad_()
        optimizer = _make_optimizer(weights, recipe)
        last = TrainingResult({}, 0, planned)
        batches = iterate_batches(len(lists.queries), recipe.lists, recipe.batch, seed)
        try:
            for step, places in enumerate(report.each(f"fitting {recipe.method}", batches, planned)):
                for group in optimizer.param_groups:
                    group["lr"] = recipe.rate * schedule_rate(step, planned)
                _train_step(network, weights, sizes, recipe, rows, lists.take(places), optimizer)
                last = TrainingResult(
                    {name: array.detach().numpy().copy() for name, array in weights.items()}, step + 1, planned
                )
        except KeyboardInterrupt:
            if not last.steps:
                raise
    return last


def schedule_rate(step: int, planned: int) -> float:
    """Return the share of the learning rate at a step: up to 1 over the first tenth, then along a cosine to 0.

    Example:
        >>> [round(rate_at(step, 20), 2) for step in (0, 1, 2, 11, 19)]
        [0.5, 1.0, 1.0, 0.5, 0.01]
    """
    warm = max(1, round(WARM_UP_SHARE * planned))
    if step < warm:
        return (step + 1) / warm
    return 0.5 + 0.5 * math.cos(math.pi * (step - warm) / (planned - warm))


def _train_step(
    network: NetworkModule,
    weights: Parameters,
    sizes: dict[str, Any],
    recipe: Recipe,
    rows: Vectors,
    lists: TrainingLists,
    optimizer: torch.optim.Optimizer,
) -> None:
    """Take one step down the loss of a batch; raise an InputError, and change nothing, if the loss is not finite."""
    vectors = torch.from_numpy(rows[np.concatenate([lists.queries[:, None], lists.items], axis=1)])
    optimizer.zero_grad()
    loss = network.loss(weights, sizes, vectors, torch.from_numpy(lists.signs), recipe.dropout)
    loss.backward()
    length = torch.nn.utils.clip_grad_norm_(weights.values(), math.inf if recipe.clip is None else recipe.clip)
    if not (math.isfinite(loss.item()) and math.isfinite(length.item())):
        raise InputError(
            "the loss is no longer finite, so nothing was written",
            remedy="give another `seed` or a smaller network, and look for unusual rows in `features`",
            context=f"fit {recipe.method}",
        )
    optimizer.step()


def _make_optimizer(weights: Parameters, recipe: Recipe) -> torch.optim.Optimizer:
    """Create Adam; weight decay applies to matrices only."""
    matrices = [parameter for parameter in weights.values() if parameter.ndim > 1]
    vectors = [parameter for parameter in weights.values() if parameter.ndim < 2]
    groups = [{"params": matrices, "weight_decay": recipe.decay}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=recipe.rate)


@contextlib.contextmanager
def _isolate_torch_state(seed: int) -> Iterator[None]:
    """Set random numbers, threads and gradients of torch for training, and restore the caller's settings afterwards."""
    threads = torch.get_num_threads()
    with (
        torch.inference_mode(False),
        torch.enable_grad(),
        torch.autocast("cpu", enabled=False),
        torch.random.fork_rng(devices=[]),
    ):
        torch.random.default_generator.manual_seed(seed)  # only this one: torch.manual_seed would affect every device
        torch.set_num_threads(TORCH_THREADS)
        try:
            yield
        finally:
            torch.set_num_threads(threads)
