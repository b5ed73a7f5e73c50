"""Every framework returns the order of kinrank.rerank, with decreasing scores, and the same errors."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kinrank as kr
from kinrank.integrations.document_order import fill_missing, order_documents, serialize_method, to_method

pytestmark = pytest.mark.slow

Ask = Callable[..., tuple[list[int], list[float]]]


def test_right_documents_come_first(ask: Ask, found: Any) -> None:
    """Re-ranking puts relevant documents first, not last."""
    places, scores = ask(found.query, found.vectors, method="lpmt")
    assert not found.right[: found.count].all()
    assert found.right[places[: found.count]].all()
    assert sorted(places) == list(range(len(found.vectors)))
    assert scores[0] == max(scores)


def test_order_is_that_of_rerank(ask: Ask, found: Any) -> None:
    for method in ("lpmt", kr.KReciprocal(k1=8), "none", {"name": "aqe", "k": 4}):
        places, scores = ask(found.query, found.vectors, method=method)
        ranking = kr.rerank(found.query[None], found.vectors, to_method(method))
        assert places == ranking.indices[0].tolist()
        np.testing.assert_allclose(scores, -ranking.distances[0], atol=1e-5)


def test_one_right_document_is_expected(ask: Ask, found: Any, request: pytest.FixtureRequest) -> None:
    lance = "lancedb" in request.node.name.lower()
    expected = ask(found.query, found.vectors, method=kr.LPMT() if lance else kr.LPMT(answers="one"))
    assert ask(found.query, found.vectors) == expected
    assert ask(found.query, found.vectors) != ask(found.query, found.vectors, method=kr.LPMT(answers="many", theta=0))


def test_scores_are_finite_and_strictly_decreasing(ask: Ask, found: Any) -> None:
    """Sorting by decreasing score gives the same order, also among duplicates, which have equal distances."""
    vectors = np.repeat(found.vectors[:6], 3, axis=0)
    for method in ("lpmt", "none", "egt", "sca", "ecn"):
        places, scores = ask(found.query, vectors, method=method)
        assert np.isfinite(scores).all()
        assert (np.diff(np.array(scores, np.float32)) < 0).all()
        assert len(set(places)) == len(vectors)


def test_top_n(ask: Ask, views: Any) -> None:
    everything, scores = ask(views.query, views.vectors)
    assert ask(views.query, views.vectors, top_n=5) == (everything[:5], scores[:5])
    assert ask(views.query, views.vectors, top_n=10_000) == (everything, scores)


def test_euclidean_metric(ask: Ask) -> None:
    vectors = [[9.0, 0.0], [1.0, 1.0], [0.0, 0.0]]
    assert ask([1.0, 0.0], vectors[:2], method="none")[0] == [0, 1]
    assert ask([1.0, 0.0], vectors, method="none", metric="euclidean")[0] == [1, 2, 0]


@pytest.mark.parametrize("count", [0, 1, 2])
def test_few_documents(ask: Ask, views: Any, count: int) -> None:
    places, scores = ask(views.query, views.vectors[:count])
    assert sorted(places) == list(range(count))
    assert len(scores) == count


GOOD = [[1.0, 2.0], [2.0, 1.0], [1.0, 1.0]]
NAN = float("nan")


@pytest.mark.parametrize(
    ("query", "vectors", "sentence"),
    [
        ([1.0, 2.0], [*GOOD, None], r"^document 3 has no vector; \w+"),
        (
            [1.0, 2.0],
            [*GOOD, [1.0, 2.0, 3.0]],
            r"^document 3 has a vector of 3 numbers, but that of the query has 2; use the same model",
        ),
        (
            [1.0, 2.0, 3.0],
            GOOD,
            r"^document 0 has a vector of 2 numbers, but that of the query has 3; use the same model",
        ),
        (
            [1.0, 2.0],
            [*GOOD, [1.0, NAN]],
            r"^the vector of document 3 contains NaN or Inf .*; repair it or leave it out$",
        ),
        ([1.0, 2.0], [*GOOD, [float("inf"), 1.0]], r"^the vector of document 3 contains NaN or Inf"),
        ([NAN, 2.0], GOOD, r"^the vector of the query contains NaN or Inf"),
        (
            [1.0, 2.0],
            [*GOOD, [0.0, 0.0]],
            r"^the vector of document 3 is zero .*; leave it out, or give `metric='euclidean'`$",
        ),
        ([0.0, 0.0], GOOD, r"^the vector of the query is zero"),
        (None, GOOD, r"^the query has no vector; \w+"),
        ([], GOOD, r"^the vector of the query has the shape \(0,\)"),
    ],
)
def test_bad_vectors(ask: Ask, query: Any, vectors: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        ask(query, vectors)


@pytest.mark.parametrize("top_n", [0, -1, 2.5, True, "3"])
def test_bad_top_n(ask: Ask, top_n: Any) -> None:
    with pytest.raises(ValueError, match=r"^top_n=.* is not allowed; give a whole number >= 1$"):
        ask(GOOD[0], GOOD, top_n=top_n)


def test_bad_method_and_metric(ask: Ask) -> None:
    with pytest.raises(ValueError, match=r"^method 'lmpt' is not known \(did you mean lpmt\?\); give one of: "):
        ask(GOOD[0], GOOD, method="lmpt")
    with pytest.raises(ValueError, match=r"^method=7 is not known; give a Method or one of: "):
        ask(GOOD[0], GOOD, method=7)
    with pytest.raises(ValueError, match=r"^metric='dot' is not allowed; give one of: cosine, euclidean$"):
        ask(GOOD[0], GOOD, metric="dot")


def test_vectors_of_any_kind() -> None:
    rows = np.array(GOOD)
    wanted = order_documents(rows[0], rows)
    for query, vectors in ((rows[:1], rows), (rows[0].tolist(), GOOD), (rows[0].astype(np.float16), tuple(rows))):
        assert order_documents(query, vectors).places == wanted.places
    for wrong in (["a", "b"], [[1.0, 2.0], [3.0, 4.0]], [1.0, None], 3.0, [[1.0], [2.0, 3.0]]):
        with pytest.raises(ValueError, match=r"^the vector of document 1 (is not a list of numbers|has the shape)"):
            order_documents(rows[0], [rows[0], wrong])
    with pytest.raises(ValueError, match="beyond float32"):
        order_documents(rows[0], [[1e300, 1.0]])


def test_inputs_are_not_changed(views: Any) -> None:
    query, vectors = views.query.copy(), views.vectors.copy()
    order_documents(query, vectors)
    assert np.array_equal(query, views.query)
    assert np.array_equal(vectors, views.vectors)


def test_a_model_that_loses_texts_is_noticed() -> None:
    assert fill_missing([None, [1.0], None], [[2.0], [3.0]]) == [[2.0], [1.0], [3.0]]
    with pytest.raises(ValueError, match=r"^the embedding model returned 1 vectors for 2 texts$"):
        fill_missing([None, [1.0], None], [[2.0]])


def test_methods_are_serialized_and_restored() -> None:
    assert serialize_method("LPMT") == "lpmt"
    for method in (kr.LPMT(), kr.LPMT(k2=7, theta=0.3), kr.KReciprocal(k1=9), kr.methods.NoReranking()):
        words = json.loads(json.dumps(serialize_method(method)))
        assert to_method(words) == method
    with pytest.raises(ValueError, match=r"^method 'aqe' has no parameter 'k9'; give some of: k"):
        to_method({"name": "aqe", "k9": 3})
    with pytest.raises(
        ValueError, match=r"^method=\{'k': 3\} has no name; give a dict such as \{'name': 'lpmt', 'k1': 20\}$"
    ):
        to_method({"k": 3})

    class Own(kr.methods.NoReranking):
        pass

    with pytest.raises(
        ValueError, match=r"can be used but not saved: methods are loaded by their name in kinrank.METHODS"
    ):
        serialize_method(Own())


@pytest.mark.parametrize(
    ("module", "framework", "extra"),
    [
        ("langchain", "langchain_core", "langchain"),
        ("llamaindex", "llama_index", "llamaindex"),
        ("haystack", "haystack", "haystack"),
        ("lancedb", "lancedb", "lancedb"),
    ],
)
def test_a_missing_framework_is_named(module: str, framework: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == framework]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, framework, None)
    monkeypatch.delitem(sys.modules, f"kinrank.integrations.{module}", raising=False)
    with pytest.raises(
        ImportError, match=rf"^Kinrank\w+ needs .*; install it in .* with: pip install '\.\[{extra}\]'$"
    ):
        importlib.import_module(f"kinrank.integrations.{module}")


def test_the_package_imports_no_framework() -> None:
    program = "import sys, json, kinrank.integrations.document_order; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    frameworks = {"langchain_core", "llama_index", "haystack", "lancedb", "pyarrow", "pydantic", "numba"}
    assert not frameworks & set(json.loads(done.stdout))
