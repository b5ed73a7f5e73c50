"""Requests are small and exact; responses become a Ranking like that of a Manifold."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import UUID

import numpy as np
import pytest

import kinrank as kr
from kinrank.client.json_messages import (
    check_texts,
    encode_body,
    encode_filter,
    encode_images,
    encode_method,
    parse_ranking,
)

ANSWER = {"mode": "online", "method": "LPMT()", "certain": 1.0, "seconds": 0.001, "version": 3, "query_ids": None}


def test_every_float32_arrives_as_it_was() -> None:
    bits = np.random.default_rng(0).integers(0, 2**32, 4096, dtype=np.uint64).astype(np.uint32)
    numbers = bits.view(np.float32)
    rows = numbers[np.isfinite(numbers)][:4000].reshape(-1, 8)
    edges = np.array([[3.4028235e38, 1e-45, 1.1754942e-38, 0.0, -0.0, 1.0, 1e20, -0.1]], np.float32)
    for sent in (rows, edges):
        arrived = np.array(json.loads(encode_body(vectors=sent))["vectors"], np.float64).astype(np.float32)
        np.testing.assert_array_equal(arrived, sent)


def test_a_body_is_compact() -> None:
    rows = np.random.default_rng(0).normal(size=(20, 64))
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    assert len(encode_body(vectors=rows)) < 0.7 * len(json.dumps(rows.tolist()))


def test_bodies_contain_the_given_fields() -> None:
    assert encode_body(vectors=np.float32([[0.1, 2.0]]), k=10, depth=None) == b'{"vectors":[[0.100000001,2]],"k":10}'
    assert encode_body(query=np.float32([1, 2])) == b'{"query":[1,2]}'
    assert encode_body() == b"{}"
    name = "12345678-1234-5678-1234-567812345678"
    sent = encode_body(ids=[np.int64(3), UUID(name)], groups=np.array(["a", "b"]), where={"kind": ["é"]})
    assert json.loads(sent) == {"ids": [3, name], "groups": ["a", "b"], "where": {"kind": ["é"]}}
    assert encode_body(vectors=np.zeros((0, 4), np.float32)) == b'{"vectors":[]}'


def test_values_outside_json_are_refused() -> None:
    with pytest.raises(ValueError, match=r"positives cannot be sent.*complex"):
        encode_body(positives=[3j])
    with pytest.raises(ValueError, match="max_distance cannot be sent"):
        encode_body(max_distance=float("nan"))


def test_filters() -> None:
    assert encode_filter(None) is None
    assert encode_filter({"kind": "shoe"}) == {"kind": "shoe"}
    assert encode_filter(("a", "b")) == ["a", "b"]
    assert encode_filter(np.array([3, 4])) == [3, 4]
    for mask in ([True, False], np.array([True, False])):
        with pytest.raises(ValueError, match=r"is a mask.*give a list of ids"):
            encode_filter(mask)


def test_texts_and_pictures(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(b"bytes")
    sent = encode_images([b"bytes", bytearray(b"bytes"), tmp_path / "a.jpg", str(tmp_path / "a.jpg")])
    assert sent == ["Ynl0ZXM="] * 4
    assert check_texts(("a dog", "a cat")) == ["a dog", "a cat"]
    for alone in ("a.jpg", b"bytes", tmp_path):
        with pytest.raises(ValueError, match=r"images is not a list"):
            encode_images(alone)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="images contains a int"):
        encode_images([3])  # type: ignore[list-item]
    for wrong in ("a dog", [b"a dog"]):
        with pytest.raises(ValueError, match="give a list of texts"):
            check_texts(wrong)  # type: ignore[arg-type]


def test_methods() -> None:
    assert encode_method(None, None) == {"method": None, "parameters": None}
    assert encode_method("aqe", {"k": 4}) == {"method": "aqe", "parameters": {"k": 4}}
    assert encode_method(kr.methods.AQE(k=4), None) == {"method": "aqe", "parameters": {"k": 4, "kdba": 0}}
    with pytest.raises(ValueError, match="has its own; leave it out"):
        encode_method(kr.methods.AQE(), {"k": 4})


def test_rankings_are_padded() -> None:
    found = parse_ranking({**ANSWER, "ids": [["b", "a"], ["c"], []], "distances": [[0.1, 0.5], [0.2], []]}, 3)
    assert found.ids.tolist() == [["b", "a", ""], ["c", "", ""], ["", "", ""]]
    assert found.distances.tolist()[1] == [pytest.approx(0.2), np.inf, np.inf]
    assert (found.indices >= 0).sum() == 3
    assert found.meta == {"mode": "online", "method": "LPMT()", "certain": 1.0, "seconds": 0.001, "version": 3}


def test_numbers_are_indices_too() -> None:
    found = parse_ranking({**ANSWER, "ids": [[4, 2]], "distances": [[0.1, 0.5]]}, 3)
    assert found.indices.tolist() == found.ids.tolist() == [[4, 2, -1]]
    assert found.has_numbers_only
    large = parse_ranking({**ANSWER, "ids": [[2**64 - 1, 2]], "distances": [[0.1, 0.5]]}, 2)
    assert large.ids.tolist() == [[2**64 - 1, 2]]


def test_queries_keep_their_names() -> None:
    answer = {**ANSWER, "ids": [["b"], ["a"]], "distances": [[0.1], [0.5]]}
    named = parse_ranking({**answer, "query_ids": ["x", "y"]}, 1)
    assert named.query_ids is not None
    assert named.query_ids.tolist() == ["x", "y"]
    assert parse_ranking({**answer, "query_ids": ["x", "x"]}, 1).query_ids is None


def test_no_query_is_an_empty_ranking() -> None:
    assert parse_ranking({**ANSWER, "ids": [], "distances": []}, 5).indices.shape == (0, 5)
