"""Losses, derivatives and scores against those of the published programs (LAttQE: against plain torch layers)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="fitting needs torch: `make test-learned` installs it")

from kinrank.learned import csa, lattqe, ssr  # noqa: E402
from kinrank.stages import ssr_published  # noqa: E402


def golden(shared_dir: Path, name: str) -> Any:
    return np.load(shared_dir / "golden" / "learned" / f"{name}.npz")


def state_of(arrays: Any) -> dict[str, Any]:
    names = [name for name in arrays.files if name.startswith("state/")]
    return {name.removeprefix("state/"): torch.tensor(arrays[name], requires_grad=True) for name in names}


def lists_of(arrays: Any, order: np.ndarray) -> Any:
    """Queries and their items, (q, k + 1, d)."""
    return torch.tensor(np.concatenate([arrays["queries"][: len(order), None], arrays["gallery"][order]], axis=1))


def close(found: Any, wanted: np.ndarray) -> None:
    made = found.detach().numpy() if hasattr(found, "detach") else np.asarray(found)
    assert made.shape == wanted.shape
    extent = np.ptp(wanted) if wanted.size > 1 else np.abs(wanted).max()
    np.testing.assert_allclose(made, wanted, rtol=0, atol=1e-5 * float(extent))


def gradients_agree(loss: Any, weights: dict[str, Any], arrays: Any) -> None:
    loss.backward()
    largest = max(np.abs(arrays[f"gradient/{name}"]).max() for name in weights)
    for name, weight in weights.items():
        found = np.zeros(weight.shape) if weight.grad is None else weight.grad.numpy()
        np.testing.assert_allclose(found, arrays[f"gradient/{name}"], rtol=0, atol=1e-5 * largest, err_msg=name)


def test_csa(shared_dir: Path) -> None:
    arrays = golden(shared_dir, "csa")
    weights, sizes = state_of(arrays), {"anchors": 32, "width": 48, "depth": 2, "heads": 4}
    assert set(weights) == set(csa.start(sizes))
    rows = lists_of(arrays, arrays["order"])
    seen = csa.affinities(rows, 32)
    close(seen[0], arrays["affinity_first_query"])
    close(csa.cosines(csa.states(weights, sizes, seen))[:, 1:], arrays["score"])
    rows = torch.tensor(arrays["gallery"][arrays["train_lists"]])
    alike = csa.cosines(csa.states(weights, sizes, csa.affinities(rows, 32))) / csa.TEMPERATURE
    close(alike.exp(), arrays["train_exp_similarity"])
    signs = torch.tensor(arrays["train_relevant"][:, 1:].astype(np.int8))
    contrast, apart = csa.terms(weights, sizes, rows, signs)
    close(contrast, arrays["train_contrastive"])
    close(apart, arrays["train_mse"])
    loss = csa.loss(weights, sizes, rows, signs, 0.0)
    close(loss, arrays["train_loss"])
    gradients_agree(loss, weights, arrays)


def test_ssr_scores(shared_dir: Path) -> None:
    arrays = golden(shared_dir, "ssr")
    sizes = {"top": 20, "hidden": 24, "lr": float(arrays["lr_dni"]), "steps": 1, "variant": "published"}
    weights, rows = state_of(arrays), lists_of(arrays, arrays["order"])
    assert set(weights) == set(ssr.start(sizes))
    units = rows / rows.norm(dim=2, keepdim=True)
    seen, _ = ssr.inputs(units, 20)
    close(seen[0], arrays["inputs_first_query"])
    close(ssr.network(weights, "dni_query", seen)[0], arrays["dni_query_first_query"])
    made = ssr.moved(weights, sizes, rows)
    close(made[:, 0], arrays["refined_query"])
    close(made[0, 1:], arrays["refined_gallery_first_query"])
    for steps in (1, 2):
        for variant, ending in (("published", ""), ("cut", "_cut")):
            found = ssr.moved(weights, {**sizes, "steps": steps, "variant": variant}, rows)
            close(ssr.cosines(found)[:, 1:], arrays[f"score_{steps}_step{ending}"])


def test_ssr_answers_as_published(shared_dir: Path) -> None:
    arrays = golden(shared_dir, "ssr")
    weights = {name: weight.detach().numpy() for name, weight in state_of(arrays).items()}
    for steps in (1, 2):
        sizes = {"top": 20, "hidden": 24, "lr": float(arrays["lr_dni"]), "steps": steps, "variant": "published"}
        with torch.no_grad():  # as the caller may have it
            found = [
                ssr_published.scores(weights, sizes, query, arrays["gallery"][order])
                for query, order in zip(arrays["queries"], arrays["order"], strict=True)
            ]
        close(np.stack(found), arrays[f"score_{steps}_step"])
        assert found[0].dtype == np.float32


def test_ssr_training(shared_dir: Path) -> None:
    arrays = golden(shared_dir, "ssr")
    sizes = {"top": 20, "hidden": 24, "lr": float(arrays["lr_dni"]), "steps": 1, "variant": "published"}
    weights, rows = state_of(arrays), lists_of(arrays, arrays["order"][:4])
    found = ssr.losses(weights, sizes, rows, torch.tensor(arrays["train_relevant"].astype(np.int8)))
    np.testing.assert_allclose(found.detach().numpy(), arrays["train_losses"], rtol=1e-5)
    gradients_agree(found.mean(), weights, arrays)


def test_lattqe(shared_dir: Path) -> None:
    arrays = golden(shared_dir, "lattqe_own_reading")
    weights, rows = state_of(arrays), lists_of(arrays, arrays["order"])
    sizes = {"dimensions": 64, "k": 12, "layers": 2, "heads": 8, "hidden": 96}
    assert set(weights) == set(lattqe.start(sizes))
    made = lattqe.states(weights, sizes, rows)
    close(lattqe.cosines(made), arrays["weights"])
    close(lattqe.expanded(rows, made), arrays["expanded"])
    close(lattqe.linear(made[:, 1:], weights, lattqe.RELEVANCE)[:, :, 0], arrays["relevance_logit"])
