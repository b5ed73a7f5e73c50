"""`run_search`: by the prepared gallery, or by any method over candidates; what cannot be combined is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinrank
from kinrank.evaluation.trials import list_untrained_methods
from kinrank.stores.faiss import FaissStore
from kinrank.web.page_data.gallery_search import make_item_store, run_search
from kinrank.web.page_data.question import Question, public_parameters, public_repr
from kinrank_bench.random_weights import add_random_weights
from web.page_gallery import DIMENSIONS, arcs, gallery, names, queries


def search(manifold: Any, rows: Any, **how: Any) -> Any:
    return run_search(manifold, rows, Question(**how))


def test_without_another_method_the_prepared_gallery_answers() -> None:
    found = search(gallery(), queries(), k=7)
    assert found.meta["mode"] == "online"
    assert np.array_equal(found.ids, gallery().search(queries(), 7).ids)


@pytest.mark.parametrize(
    "how", [{"method": "lpmt"}, {"method": "LPMT", "parameters": {"answers": "some", "k1": 60.0, "theta": None}}]
)
def test_the_prepared_method_under_its_name_is_the_prepared_one(how: dict[str, Any]) -> None:
    assert search(gallery(), queries(), k=3, **how).meta["mode"] == "online"


def test_another_method_is_that_of_rerank_with_the_ids_of_the_gallery() -> None:
    found = search(gallery(), queries(), k=5, depth=8, method="k-reciprocal", parameters={"k1": 9}, candidates=30)
    expected = kinrank.rerank(queries(), arcs(), kinrank.KReciprocal(k1=9), candidates=30, k=8)
    assert found.meta["mode"] == "candidates"
    assert found.meta["method"] == "KReciprocal(k1=9)"
    assert np.array_equal(found.ids, np.array(names(), object)[expected.indices])
    assert found.distances == pytest.approx(expected.distances)


def test_candidates_alone_keep_the_prepared_parameters() -> None:
    manifold = kinrank.Manifold.build(arcs(), kinrank.LPMT(k2=7))
    assert search(manifold, queries(), k=3, candidates=20).meta["method"] == "LPMT(k2=7)"
    changed = search(manifold, queries(), k=3, method="lpmt", parameters={"theta": 0.2})
    assert (changed.meta["method"], changed.meta["candidates"]) == ("LPMT(k2=7, theta=0.2)", 1000)


def test_no_stranger_names_a_file_of_this_machine() -> None:
    with pytest.raises(ValueError, match=r"csa has no parameter 'weights'; it has: top"):
        search(gallery(), queries()[:1], k=4, method="csa", parameters={"weights": "/etc/hostname"})
    with pytest.raises(ValueError, match="csa needs the weights of a gallery that was prepared with it"):
        search(gallery(), queries()[:1], k=4, method="csa")


def test_a_learned_gallery_uses_its_own_weights(tmp_path: Path) -> None:
    method = add_random_weights("lattqe", tmp_path / "w.npz", arcs().shape[1])
    manifold = kinrank.Manifold.build(arcs(), method)
    assert search(manifold, queries()[:1], k=4).depth == 4
    assert public_repr(method) == "LAttQE(weights='w.npz')"
    assert public_parameters(method) == {"k": 16, "kdba": 0}
    assert search(manifold, queries()[:1], k=4, method="lattqe", parameters={"k": 16}).meta["mode"] == "online"
    (tmp_path / "w.npz").unlink()
    assert search(manifold, queries()[:1], k=4, method="aqe").meta["mode"] == "candidates"
    with pytest.raises(ValueError, match=r"lattqe needs the weights.*leave out `method` and `parameters`"):
        search(manifold, queries()[:1], k=4, parameters={"k": 3})
    with pytest.raises(ValueError, match=r"lattqe needs the weights.*leave out `candidates`"):
        search(manifold, queries()[:1], k=4, candidates=10)


def test_untrained_methods_over_candidates_are_refused() -> None:
    assert search(gallery(), queries()[:1], k=4, method="gss").meta["method"] == "GSS(epochs=0)"


@pytest.mark.parametrize("name", list_untrained_methods())
def test_every_method_answers(name: str) -> None:
    found = search(gallery(), queries()[:1], k=4, method=name, candidates=25)
    assert found.ids.shape == (1, 4)


def test_the_vectors_are_not_copied() -> None:
    snapshot = gallery().snapshot
    assert np.shares_memory(make_item_store(snapshot)._rows, snapshot.vectors)  # type: ignore[attr-defined]


def test_filters_marks_and_limits_go_with_candidates() -> None:
    some = names()[:10]
    left = search(gallery(), queries()[:1], k=20, where=some, method="aqe", candidates=50)
    assert {name for name in left.ids[0] if name} == set(some)
    marked = search(gallery(), queries()[:1], k=5, positives=["a05"], parameters={"theta": 0.3}, candidates=50)
    assert "a05" not in marked.ids[0].tolist()
    near = search(gallery(), queries()[:1], k=20, method="none", max_distance=0.5, candidates=50)
    assert 0 < (near.indices[0] >= 0).sum() < 20
    assert search(gallery(), queries()[:1], k=3, positives=[], negatives=[[]], method="aqe").depth == 3


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"method": "nonsense"}, "method 'nonsense' is not known"),
        ({"method": 3}, "give the name of a method"),
        ({"parameters": {"thetta": 1}}, "lpmt has no parameter 'thetta'; it has: answers, k1, k2"),
        ({"parameters": {"theta": 2}}, "theta=2 is not allowed; give a number >= 0 and <= 1"),
        ({"parameters": {"theta": "0.3"}}, "theta='0.3' is not allowed"),
        ({"parameters": [1]}, "give names with their values"),
        ({"method": "none", "parameters": {"k": 1}}, "none has no parameter 'k'; it has: no parameters"),
        ({"method": "aqe", "groups": ["x"]}, "groups is only for the prepared gallery, LPMT(), not for candidates"),
        ({"method": "aqe", "budget": 10}, "budget is only for the prepared gallery"),
        ({"method": "aqe", "positives": ["a01"]}, "AQE cannot use `positives`"),
        ({"method": "aqe", "where": ["nobody"]}, "where contains 'nobody'"),
        ({"method": "aqe", "candidates": 0}, "candidates=0 is not allowed"),
        ({"method": "aqe", "k": 0}, "k=0 is not allowed"),
        ({"method": "aqe", "max_distance": float("nan")}, "max_distance=nan is not allowed"),
    ],
)
def test_invalid_searches_have_an_error_message(how: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError) as error:
        search(gallery(), queries()[:1], **how)
    assert words in str(error.value)


def test_vectors_of_another_length_are_refused() -> None:
    with pytest.raises(ValueError, match=f"{DIMENSIONS} dimensions are needed"):
        search(gallery(), np.ones((1, 3)), method="aqe")


def test_an_empty_gallery_finds_nothing() -> None:
    manifold = kinrank.Manifold.build(arcs()[:1])
    manifold.remove([0])
    assert search(manifold, queries(), method="aqe").ids.shape == (5, 0)


def test_remembered_queries_are_no_candidates() -> None:
    manifold = kinrank.Manifold.build(arcs(), ids=names())
    assert manifold.observe(arcs(5)[::4]) > 10
    plain = search(gallery(), queries(), k=9, method="k-reciprocal", candidates=40)
    found = search(manifold, queries(), k=9, method="k-reciprocal", candidates=40)
    assert np.array_equal(found.ids, plain.ids)
    some = search(manifold, queries(), k=9, method="k-reciprocal", candidates=40, where=names()[::2])
    assert {int(name[1:]) % 2 for name in some.ids.ravel() if name} == {0}


def test_a_store_finds_the_candidates() -> None:
    pytest.importorskip("faiss", reason="needs FAISS: pip install '.[faiss]'")
    manifold = kinrank.Manifold.build(FaissStore(arcs(), "flat"))
    found = search(manifold, queries(), k=9, method="aqe", candidates=40)
    assert np.array_equal(found.indices, kinrank.rerank(queries(), arcs(), "aqe", candidates=40, k=9).indices)


def test_lengths_matter_where_the_gallery_says_so() -> None:
    rows = arcs() * np.linspace(1, 9, len(arcs()), dtype=np.float32)[:, None]
    manifold = kinrank.Manifold.build(rows, metric="euclidean")
    found = search(manifold, rows[:3], k=9, method="aqe", candidates=40)
    expected = kinrank.rerank(rows[:3], rows, "aqe", candidates=40, k=9, metric="euclidean")
    assert np.array_equal(found.indices, expected.indices)


def test_items_that_came_after_removals_keep_their_names() -> None:
    manifold = kinrank.Manifold.build(arcs())
    manifold.remove(list(range(10)))
    found = search(manifold, arcs()[20:21], k=3, method="none", candidates=10)
    assert found.ids[0, 0] == 20
