"""Losses, derivatives and scores against those of the published programs (LAttQE: against plain torch layers)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch", reason="fitting needs torch: `make test-learned` installs it")

from kinrank.methods.csa import training as csa_loss  # noqa: E402
from kinrank.methods.lattqe import training as lattqe_loss  # noqa: E402
from kinrank.methods.ssr import training as ssr_loss  # noqa: E402


def golden(shared_dir: Path, name: str) -> Any:
    return np.load(shared_dir / "golden" / "learned" / f"{name}.npz")


def state_of(arrays: Any) -> dict[str, Any]:
    names = [name for name in arrays.files if name.startswith("state/")]
    return {name.removeprefix("state/"): torch.tensor(arrays[name], requires_grad=True) for name in names}


def lists_of(arrays: Any, order: np.ndarray) -> Any:
    """Return queries and their items, (q, k + 1, d)."""
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
    assert set(weights) == set(csa_loss.start(sizes))
    rows = lists_of(arrays, arrays["order"])
    seen = csa_loss.affinities(rows, 32)
    close(seen[0], arrays["affinity_first_query"])
    close(csa_loss.cosines(csa_loss.states(weights, sizes, seen))[:, 1:], arrays["score"])
    rows = torch.tensor(arrays["gallery"][arrays["train_lists"]])
    alike = csa_loss.cosines(csa_loss.states(weights, sizes, csa_loss.affinities(rows, 32))) / csa_loss.TEMPERATURE
    close(alike.exp(), arrays["train_exp_similarity"])
    signs = torch.tensor(arrays["train_relevant"][:, 1:].astype(np.int8))
    contrast, apart = csa_loss.loss_terms(weights, sizes, rows, signs)
    close(contrast, arrays["train_contrastive"])
    close(apart, arrays["train_mse"])
    loss = csa_loss.loss(weights, sizes, rows, signs, 0.0)
    close(loss, arrays["train_loss"])
    gradients_agree(loss, weights, arrays)


def test_ssr_scores(shared_dir: Path) -> None:
    arrays = golden(shared_dir, "ssr")
    sizes = {"top": 20, "hidden": 24, "lr": float(arrays["lr_dni"]), "steps": 1, "variant": "published"}
    weights, rows = state_of(arrays), lists_of(arrays, arrays["order"])
    assert set(weights) == set(ssr_loss.start(sizes))
    units = rows / rows.norm(dim=2, keepdim=True)
    seen, _ = ssr_loss.build_inputs(units, 20)
    close(seen[0], arrays["inputs_first_query"])
    close(ssr_loss.run_network(weights, "dni_query", seen)[0], arrays["dni_query_first_query"])
    made = ssr_loss.move_rows(weights, sizes, rows)
    close(made[:, 0], arrays["refined_query"])
    close(made[0, 1:], arrays["refined_gallery_first_query"])
    for steps in (1, 2):
        for variant, ending in (("published", ""), ("cut", "_cut")):
            found = ssr_loss.move_rows(weights, {**sizes, "steps": steps, "variant": variant}, rows)
            close(ssr_loss.cosines(found)[:, 1:], arrays[f"score_{steps}_step{ending}"])


def test_ssr_answers_as_published(shared_dir: Path) -> None:
    arrays = golden(shared_dir, "ssr")
    weights = {name: weight.detach().numpy() for name, weight in state_of(arrays).items()}
    for steps in (1, 2):
        sizes = {"top": 20, "hidden": 24, "lr": float(arrays["lr_dni"]), "steps": steps, "variant": "published"}
        with torch.no_grad():  # a possible setting of the caller
            found = [
                ssr_loss.score_items(weights, sizes, query, arrays["gallery"][order])
                for query, order in zip(arrays["queries"], arrays["order"], strict=True)
            ]
        close(np.stack(found), arrays[f"score_{steps}_step"])
        assert found[0].dtype == np.float32


def test_ssr_training(shared_dir: Path) -> None:
    arrays = golden(shared_dir, "ssr")
    sizes = {"top": 20, "hidden": 24, "lr": float(arrays["lr_dni"]), "steps": 1, "variant": "published"}
    weights, rows = state_of(arrays), lists_of(arrays, arrays["order"][:4])
    found = ssr_loss.list_losses(weights, sizes, rows, torch.tensor(arrays["train_relevant"].astype(np.int8)))
    np.testing.assert_allclose(found.detach().numpy(), arrays["train_losses"], rtol=1e-5)
    gradients_agree(found.mean(), weights, arrays)


def test_lattqe(shared_dir: Path) -> None:
    arrays = golden(shared_dir, "lattqe_own_reading")
    weights, rows = state_of(arrays), lists_of(arrays, arrays["order"])
    sizes = {"dimensions": 64, "k": 12, "layers": 2, "heads": 8, "hidden": 96}
    assert set(weights) == set(lattqe_loss.start(sizes))
    made = lattqe_loss.states(weights, sizes, rows)
    close(lattqe_loss.cosines(made), arrays["weights"])
    close(lattqe_loss.expand_queries(rows, made), arrays["expanded"])
    close(lattqe_loss.linear(made[:, 1:], weights, lattqe_loss.RELEVANCE_LAYER)[:, :, 0], arrays["relevance_logit"])
