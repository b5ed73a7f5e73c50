"""The losses against slow references, and the torch networks against those in numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch", reason="fitting needs torch: `make test-learned` installs it")

from kinrank.learned.training_data import is_hard  # noqa: E402
from kinrank.methods import csa, lattqe, network_layers, ssr  # noqa: E402
from kinrank.methods.csa import training as csa_loss  # noqa: E402
from kinrank.methods.lattqe import training as lattqe_loss  # noqa: E402
from kinrank.methods.ssr import training as ssr_loss  # noqa: E402
from reference import learned as slow  # noqa: E402

SIGNS = np.array([[1, 0, -1, 1, 0, 0, 1], [0, 0, 0, 0, 0, 0, 1], [1, 1, 1, -1, -1, 1, 0]], np.int8)
CSA = {"anchors": 5, "width": 12, "depth": 2, "heads": 3}
SSR = {"top": 7, "hidden": 9, "lr": 0.05, "steps": 2, "variant": "cut"}
LATTQE = {"dimensions": 6, "k": 4, "layers": 2, "heads": 2, "hidden": 5}


def rows_of(rng: np.random.Generator, lists: int = 3, items: int = 8, dimensions: int = 6) -> np.ndarray:
    rows = rng.standard_normal((lists, items, dimensions)).astype(np.float32)
    return np.asarray(rows / np.linalg.norm(rows, axis=2, keepdims=True))


def spread(start: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """Return weights far from their initial values, so that every term matters."""
    return {name: torch.tensor(rng.standard_normal(value.shape).astype(np.float32)) for name, value in start.items()}


def plain(weights: dict[str, Any], shapes: dict[str, Any]) -> dict[str, Any]:
    return {name: weights[name].numpy() for name in shapes}


def test_csa_loss(rng: np.random.Generator) -> None:
    rows, weights = rows_of(rng), spread(csa_loss.start(CSA), rng)
    contrast, apart = csa_loss.loss_terms(weights, CSA, torch.tensor(rows), torch.tensor(SIGNS))
    arrays, wanted = plain(weights, csa.CSA.layout(CSA)), []
    for one, signs in zip(rows, SIGNS, strict=True):
        seen = csa.anchor_similarities(one[0], one[1:], 5)
        states = csa.run_network(arrays, CSA, seen).astype(np.float64)
        back = (
            states @ weights[f"{csa_loss.ALIGNMENT_LAYER}.weight"].numpy().T
            + weights[f"{csa_loss.ALIGNMENT_LAYER}.bias"].numpy()
        )
        wanted.append((slow.csa_contrast(states, signs.tolist()), slow.csa_apart(seen, back)))
    np.testing.assert_allclose([float(contrast), float(apart)], np.mean(wanted, axis=0), rtol=1e-5)


def test_csa_knows_no_places(rng: np.random.Generator) -> None:
    """The published training permutes the items and keeps the order of anchors: the loss does not change."""
    rows, weights = rows_of(rng), spread(csa_loss.start(CSA), rng)
    seen = csa_loss.affinities(torch.tensor(rows), 5)
    order = [0, *(1 + rng.permutation(7))]
    one = csa_loss.cosines(csa_loss.states(weights, CSA, seen))[:, order]
    np.testing.assert_allclose(one, csa_loss.cosines(csa_loss.states(weights, CSA, seen[:, order])), atol=1e-5)


@pytest.mark.parametrize("variant", ["cut", "published"])
def test_ssr_loss(rng: np.random.Generator, variant: str) -> None:
    rows, weights, sizes = rows_of(rng), spread(ssr_loss.start(SSR), rng), {**SSR, "variant": variant}
    weights[ssr_loss.SCALE_NAME] = torch.tensor([3.0])
    found = ssr_loss.list_losses(weights, sizes, torch.tensor(rows), torch.tensor(SIGNS)).detach().numpy()
    arrays = plain(weights, ssr.SSR.layout(SSR))
    stage = ssr if variant == "cut" else ssr_loss
    scores = [stage.score_items(arrays, sizes, one[0], one[1:]).tolist() for one in rows]
    wanted = [slow.ssr_loss(score, signs.tolist(), 3.0) for score, signs in zip(scores, SIGNS, strict=True)]
    np.testing.assert_allclose(found, wanted, rtol=1e-4)


def test_lattqe_loss(rng: np.random.Generator) -> None:
    rows, weights = rows_of(rng), spread(lattqe_loss.start(LATTQE), rng)
    lists, arrays = rows[:, :5], plain(weights, lattqe.LAttQE.layout(LATTQE))
    made = lattqe.encode_lists(arrays, LATTQE, lists)
    shares = np.stack([network_layers.cosines(state[0], state) for state in made]).astype(np.float64)
    wanted = []
    for one, share, state, signs in zip(rows.astype(np.float64), shares, made, SIGNS, strict=True):
        mixed = slow.unit((share[:, None] * one[:5]).sum(axis=0))
        logits = state[1:] @ weights["relevance.weight"].numpy()[0] + weights["relevance.bias"].numpy()[0]
        each = [np.log1p(np.exp(-x if sign else x)) for x, sign in zip(logits, signs[:4], strict=True) if sign >= 0]
        wanted.append(slow.lattqe_contrast(mixed, one[1:], signs.tolist()) + 0.1 * np.mean(each))
    found = lattqe_loss.loss(weights, LATTQE, torch.tensor(rows), torch.tensor(SIGNS), 0.0)
    np.testing.assert_allclose(float(found), np.mean(wanted), rtol=1e-5)


def test_only_five_negatives_count() -> None:
    query, items = torch.eye(3)[:1], torch.eye(3)[:1].expand(1, 9, 3)
    signs = torch.tensor([[1, 0, 0, -1, 0, 0, 0, 0, 0]], dtype=torch.int8)
    assert float(lattqe_loss.contrastive_losses(query, items, signs)) == pytest.approx(5 * (1 - 1e-3) ** 2, rel=1e-4)


@pytest.mark.parametrize("items", [1, 2, 3, 6, 11])
def test_the_networks_are_those_that_answer(rng: np.random.Generator, items: int) -> None:
    rows = rows_of(rng, 2, items + 1)
    weights = spread(csa_loss.start(CSA), rng)
    found = csa_loss.cosines(csa_loss.states(weights, CSA, csa_loss.affinities(torch.tensor(rows), 5)))[:, 1:].numpy()
    arrays = plain(weights, csa.CSA.layout(CSA))
    np.testing.assert_allclose(found, [csa.score_items(arrays, CSA, one[0], one[1:]) for one in rows], atol=1e-5)
    weights, sizes = spread(ssr_loss.start({**SSR, "top": 11}), rng), {**SSR, "top": 11}
    found = ssr_loss.cosines(ssr_loss.move_rows(weights, sizes, torch.tensor(rows)))[:, 1:].numpy()
    arrays = plain(weights, ssr.SSR.layout(sizes))
    np.testing.assert_allclose(found, [ssr.score_items(arrays, sizes, one[0], one[1:]) for one in rows], atol=1e-4)
    sizes = {**LATTQE, "k": 11}
    weights = spread(lattqe_loss.start(sizes), rng)
    found = lattqe_loss.states(weights, sizes, torch.tensor(rows)).numpy()
    arrays = plain(weights, lattqe.LAttQE.layout(sizes))
    np.testing.assert_allclose(found, lattqe.encode_lists(arrays, sizes, rows), atol=1e-4)


@pytest.mark.parametrize("items", [0, 1, 3, 7])
def test_published_answers_on_short_lists(rng: np.random.Generator, items: int) -> None:
    """One step at a tiny rate equals the cut variant: outputs at positions without an item move nothing."""
    arrays = plain(spread(ssr_loss.start(SSR), rng), ssr.SSR.layout(SSR))
    sizes = {**SSR, "lr": 1e-5, "steps": 1, "variant": "published"}
    rows = rows_of(rng, 1, items + 1)[0]
    found = ssr_loss.score_items(arrays, sizes, rows[0], rows[1:])
    assert found.shape == (items,)
    if items:
        np.testing.assert_allclose(found, ssr.score_items(arrays, sizes, rows[0], rows[1:]), atol=1e-6)
        moved = ssr_loss.refine_vectors(arrays, {**sizes, "lr": 0.05}, rows[0], rows[1:])[0]
        np.testing.assert_allclose(  # the first move has none before it
            moved, ssr.refine_vectors(arrays, {**sizes, "lr": 0.05}, rows[0], rows[1:])[0], atol=1e-5
        )


def test_hard_lists(rng: np.random.Generator) -> None:
    signs = rng.integers(-1, 2, (200, 9)).astype(np.int8)
    wanted = [row.count(1) > 2 and slow.average_precision(row) < 0.95 if 1 in row else False for row in signs.tolist()]
    assert is_hard(signs).tolist() == wanted
    assert {True, False} == set(wanted)
