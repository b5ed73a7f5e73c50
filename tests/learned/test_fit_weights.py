"""Methods fitted on small sets: determinism, better lists, a correct record, and no effect on the caller's state."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch", reason="fitting needs torch: `make test-learned` installs it")

import kinrank  # noqa: E402
from kinrank import weight_files  # noqa: E402
from kinrank.learned import RECIPES, fit_weights, torch_trainer, training_data  # noqa: E402
from kinrank.methods.csa import training as csa_loss  # noqa: E402
from learned.small import OPTIONS, fitted, noisy  # noqa: E402

NAMES = list(RECIPES)


def loaded(path: Path, name: str) -> weight_files.Weights:
    kind = kinrank.METHODS[name]
    return weight_files.load(path, name, kind.layout, kind.size_types)


@pytest.mark.parametrize("name", NAMES)
def test_same_seed_same_bytes(tmp_path: Path, name: str) -> None:
    found = [fitted(name, tmp_path, seed=seed) and (tmp_path / f"{name}.npz").read_bytes() for seed in (3, 3, 4)]
    assert found[0] == found[1]
    assert found[0] != found[2]
    assert [entry.name for entry in tmp_path.iterdir()] == [f"{name}.npz"]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_returned_and_recorded(tmp_path: Path, name: str) -> None:
    method = fitted(name, tmp_path, seed=5)
    assert method == kinrank.METHODS[name](
        **{"weights": str(tmp_path / f"{name}.npz"), **({"k": 4} if name == "lattqe" else {})}
    )
    queries = noisy(seed=1)[0][:7]
    ranking = kinrank.rerank(queries, noisy()[0], method)
    assert np.isfinite(ranking.distances).all()
    found = loaded(tmp_path / f"{name}.npz", name)
    record = found.record
    assert (record["method"], record["labels"], record["seed"]) == (name, "given", 5)
    assert (record["items"], record["dimensions"]) == (120, 16)
    assert record["steps"] == record["of_steps"] == -(-64 // RECIPES[name].batch)
    assert record["stopped_early"] is False
    assert set(record["versions"]) == {"kinrank", "numpy", "torch"}
    assert {"batch", "rate", "decay", "clip", "dropout", "candidates", *OPTIONS[name]} <= set(record["recipe"])
    assert {key: record["recipe"][key] for key in OPTIONS[name]} == OPTIONS[name]
    assert str(tmp_path) not in json.dumps(record)


@pytest.mark.parametrize("name", NAMES)
def test_the_callers_state_is_untouched(tmp_path: Path, name: str) -> None:
    features, labels = noisy()
    before = features.copy(), torch.random.get_rng_state(), torch.get_num_threads(), np.random.get_state()[1].copy()  # noqa: NPY002
    with torch.inference_mode(), torch.autocast("cpu"):
        torch.set_default_dtype(torch.float64)
        try:
            inside = kinrank.fit(name, features, labels, path=tmp_path / "inside.npz", **OPTIONS[name])
        finally:
            torch.set_default_dtype(torch.float32)
        assert torch.is_inference_mode_enabled()
        assert torch.is_autocast_enabled("cpu")
    after = features, torch.random.get_rng_state(), torch.get_num_threads(), np.random.get_state()[1]  # noqa: NPY002
    assert all(np.array_equal(one, other) for one, other in zip(before, after, strict=True))
    torch.manual_seed(99)
    fitted(name, tmp_path)
    assert inside.name == name
    assert (tmp_path / "inside.npz").read_bytes() == (tmp_path / f"{name}.npz").read_bytes()


@pytest.mark.parametrize("name", NAMES)
def test_better_than_no_reranking(tmp_path: Path, name: str) -> None:
    """On other groups than those of the fit."""
    features, labels = noisy(24, 12, seed=2)
    more = {"csa": {"lists": 1200, "width": 32}, "ssr": {"lists": 1200, "hidden": 64}, "lattqe": {"lists": 800}}[name]
    top = {"top": 60} if name == "csa" else {}
    method = kinrank.fit(
        kinrank.METHODS[name](**top), features, labels, path=tmp_path / "w.npz", **{**OPTIONS[name], **more}
    )
    assert getattr(method, "top", 60) == 60
    others, truth = noisy(20, 12, seed=3)
    measured = {
        str(one): kinrank.evaluate(kinrank.rerank(None, others, one), kinrank.Truth.from_labels(truth))["mAP"].mean
        for one in (method, kinrank.methods.NoReranking())
    }
    plain = measured.pop("NoReranking()")
    assert next(iter(measured.values())) > plain + 0.02


def test_pseudo_labels(tmp_path: Path) -> None:
    reports: list[str] = []
    features, _ = noisy(noise=0.2)
    method = kinrank.fit(
        kinrank.methods.CSA(top=50),
        features,
        "pseudo",
        path=tmp_path / "w.npz",
        progress=lambda *step: reports.append(step[0]),
        **OPTIONS["csa"],
    )
    assert method == kinrank.methods.CSA(top=50, weights=str(tmp_path / "w.npz"))
    assert loaded(tmp_path / "w.npz", "csa").record["labels"] == "pseudo"
    assert reports.count("fitting CSA") == 4
    assert len(set(reports)) > 1  # LPMT reports progress too
    found = training_data.find_mutual_pairs(kinrank.vector_input.to_unit_rows(features.astype(np.float32)))
    everyone = np.tile(np.arange(120), (120, 1))
    signs = found.of(np.arange(120), everyone)
    nearest = kinrank.rerank(None, features, kinrank.LPMT(), k=20).indices
    listed = np.zeros((120, 120), bool)
    np.put_along_axis(listed, nearest, True, axis=1)
    assert np.array_equal(signs == 1, listed & listed.T)
    assert found.is_query.tolist() == (signs == 1).any(axis=1).tolist()


def test_progress(tmp_path: Path) -> None:
    reports: list[Any] = []
    features, labels = noisy()
    kinrank.fit(
        "csa", features, labels, path=tmp_path / "w.npz", progress=lambda *step: reports.append(step), **OPTIONS["csa"]
    )
    assert reports == [("fitting CSA", done, 4) for done in (1, 2, 3, 4)]


def test_labels_of_any_kind_are_the_same(tmp_path: Path) -> None:
    features, labels = noisy()
    written = []
    for given in (
        labels,
        labels.astype(np.uint8),
        labels.tolist(),
        [f"label {one}" for one in labels],
        labels.astype(str),
    ):
        kinrank.fit("ssr", features, given, path=tmp_path / "w.npz", **OPTIONS["ssr"])
        written.append((tmp_path / "w.npz").read_bytes())
    assert len(set(written)) == 1


def test_unknown_labels_ask_nothing_and_are_never_relevant() -> None:
    rows, labels = noisy()
    labels[::3] = -1
    rows = kinrank.vector_input.to_unit_rows(rows.astype(np.float32))
    known = training_data.LabelMatches(training_data.encode_labels(labels, len(rows)))
    found = training_data.gather_lists(rows, known, 30, 1000, 8, False, 0)
    assert (labels[found.queries] >= 0).all()
    assert len(set(found.queries.tolist())) == len(found.queries) == 80
    theirs = labels[found.items]
    assert (theirs < 0).any()
    assert np.array_equal(found.signs, np.where(theirs < 0, -1, theirs == labels[found.queries][:, None]))
    texts = ["" if one < 0 else f"{one}" for one in labels]
    assert np.array_equal(training_data.encode_labels(texts, len(rows)) < 0, labels < 0)


def test_what_is_unknown_changes_no_loss(rng: np.random.Generator) -> None:
    """An item with unknown label is context; with a label other than the query's it would count."""
    rows, sizes = (
        torch.tensor(rng.standard_normal((1, 6, 4)).astype(np.float32)),
        {"anchors": 3, "width": 4, "depth": 1, "heads": 1},
    )
    found = csa_loss.start(sizes)
    signs = torch.tensor([[1, 0, 0, 1, -1]], dtype=torch.int8)
    one, other = (
        csa_loss.loss_terms(found, sizes, rows, sign)[0] for sign in (signs, signs.abs().where(signs >= 0, 0))
    )
    assert float(one) < float(other)


def test_lists_are_drawn_once_each_before_any_comes_again() -> None:
    batches = list(training_data.iterate_batches(10, 25, 4, 0))
    assert [len(batch) for batch in batches] == [4] * 6 + [1]
    drawn = np.concatenate(batches)
    assert sorted(drawn[:10]) == sorted(drawn[10:20]) == list(range(10))
    assert len(set(drawn[20:])) == 5


def test_few_hard_lists_give_way_to_all() -> None:
    rows, labels = noisy(noise=0.01)  # the search is already right
    rows = kinrank.vector_input.to_unit_rows(rows.astype(np.float32))
    known = training_data.LabelMatches(training_data.encode_labels(labels, len(rows)))
    assert len(training_data.gather_lists(rows, known, 30, 1000, 8, True, 0).queries) == 120
    rows, labels = noisy()
    rows = kinrank.vector_input.to_unit_rows(rows.astype(np.float32))
    known = training_data.LabelMatches(training_data.encode_labels(labels, len(rows)))
    hard = training_data.gather_lists(rows, known, 30, 1000, 8, True, 0)
    assert 8 <= len(hard.queries) < 120
    assert training_data.is_hard(hard.signs).all()


@pytest.mark.parametrize("name", NAMES)
def test_three_items(tmp_path: Path, name: str) -> None:
    rows = np.eye(3, 16) + 0.1
    method = kinrank.fit(name, rows, [0, 0, 1], path=tmp_path / "w.npz", **{**OPTIONS[name], "lists": 20})
    assert kinrank.rerank(None, rows, method).indices.shape == (3, 2)


def test_published_variant_of_ssr(tmp_path: Path) -> None:
    method = fitted("ssr", tmp_path, variant="published", lr=1e-2)
    assert loaded(tmp_path / "ssr.npz", "ssr").sizes["variant"] == "published"
    ranking = kinrank.rerank(noisy(seed=1)[0][:5], noisy()[0], method)
    assert np.isfinite(ranking.distances).all()
    once = (tmp_path / "ssr.npz").read_bytes()
    fitted("ssr", tmp_path, variant="published", lr=1e-2)
    assert once == (tmp_path / "ssr.npz").read_bytes()


def test_neighbours_of_lattqe(tmp_path: Path) -> None:
    features, labels = noisy()
    path, options = tmp_path / "w.npz", {"heads": 2, "hidden": 8, "lists": 32}
    assert kinrank.fit(kinrank.methods.LAttQE(k=3), features, labels, path=path, **options) == kinrank.methods.LAttQE(
        k=3, weights=str(path)
    )
    assert loaded(path, "lattqe").sizes["k"] == 3
    few = kinrank.fit(kinrank.methods.LAttQE(k=3, kdba=2), features, labels, path=path, k=2, **options)
    assert few == kinrank.methods.LAttQE(k=2, kdba=2, weights=str(path))
    assert kinrank.fit(kinrank.methods.LAttQE(k=3), features, labels, path=path, k=9, **options).k == 9  # type: ignore[attr-defined]
    both = kinrank.fit(kinrank.methods.AugmentedLAttQE(k=4), features, labels, path=path, **options)
    assert (both.k, both.kdba) == (4, 5)  # type: ignore[attr-defined]
    assert kinrank.rerank(None, features, both).depth == len(features) - 1


@pytest.mark.parametrize("name", NAMES)
def test_interrupted_after_some_steps(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file holds the result of the complete steps, even if the interrupt comes in the middle of the next."""
    module = __import__(f"kinrank.methods.{name}.training", fromlist=["loss"])
    states: list[Any] = []

    def loss(weights: Any, *rest: Any) -> Any:
        if len(states) == 2:
            for weight in weights.values():
                weight.data.fill_(7.0)  # an incomplete step
            raise KeyboardInterrupt
        states.append(1)
        return original(weights, *rest)

    original = module.loss
    monkeypatch.setattr(module, "loss", loss)
    with pytest.warns(
        UserWarning, match=rf"fitting {RECIPES[name].method} was stopped after 2 of \d+ steps; .*w.npz holds"
    ):
        method = kinrank.fit(name, *noisy(), path=tmp_path / "w.npz", **{**OPTIONS[name], "lists": 128})
    found = loaded(tmp_path / "w.npz", name)
    assert (found.record["steps"], found.record["stopped_early"]) == (2, True)
    assert not any((array == 7.0).any() for array in found.arrays.values())
    assert np.isfinite(kinrank.rerank(noisy()[0][:3], noisy()[0], method).distances).all()


def test_interrupted_before_the_first_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def loss(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(csa_loss, "loss", loss)
    before = torch.get_num_threads(), torch.random.get_rng_state()
    with pytest.raises(KeyboardInterrupt):
        fitted("csa", tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert before[0] == torch.get_num_threads()
    assert torch.equal(before[1], torch.random.get_rng_state())


@pytest.mark.parametrize("when", [0, 2])
def test_a_loss_that_is_no_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: int) -> None:
    original, seen = csa_loss.loss, []

    def loss(*given: Any) -> Any:
        seen.append(1)
        return original(*given) * (float("nan") if len(seen) > when else 1.0)

    monkeypatch.setattr(csa_loss, "loss", loss)
    with pytest.raises(ValueError, match="fit CSA: the loss is no longer finite, so nothing was written; give another"):
        fitted("csa", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_rates() -> None:
    rates = [torch_trainer.schedule_rate(step, 150) for step in range(150)]
    assert rates[0] == pytest.approx(1 / 15)
    assert max(rates) == rates[14] == 1.0
    assert 0 < rates[-1] < 1e-3
    assert [torch_trainer.schedule_rate(0, 1)] == [1.0]


def test_memory_is_asked_for_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit_weights, "default_limit_bytes", lambda: 10**5)
    for name in NAMES:
        with pytest.raises(
            kinrank.errors.MemoryLimitError, match=r"takes about .* but only 100 KB are free; give a smaller"
        ):
            fitted(name, tmp_path)
