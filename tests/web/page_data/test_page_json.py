"""JSON of the page: both lists with their ranks, the chain with its sentence, and the Python code."""

from __future__ import annotations

import ast
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinrank
from kinrank.web.collection import Collection
from kinrank.web.page_data.example_query import find_example
from kinrank.web.page_data.likeness import Likeness
from kinrank.web.page_data.page_json import build_chain_page, build_rank_page
from kinrank.web.page_data.question import Question, get_query_vector
from kinrank.web.settings import Files
from kinrank_bench.random_weights import add_random_weights
from web.page_gallery import DIMENSIONS, LENGTH, arcs, collection, gallery, names, queries

FAR = "a15"  # at the other end of the arc: the last item by distance


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    return collection(tmp_path_factory.mktemp("known"))


def make_answer(known: Collection, question: Question, manifold: kinrank.Manifold | None = None) -> dict[str, Any]:
    """Return the data as the page receives it."""
    answer: dict[str, Any] = json.loads(
        json.dumps(build_rank_page(gallery() if manifold is None else manifold, known, question), allow_nan=False)
    )
    return answer


def why(known: Collection, question: Question, item: Any, manifold: kinrank.Manifold | None = None) -> dict[str, Any]:
    answer = build_chain_page(gallery() if manifold is None else manifold, known, question, item)
    found: dict[str, Any] = json.loads(json.dumps(answer, allow_nan=False))
    return found


# before and after


def test_both_lists_are_those_of_the_library(known: Collection) -> None:
    answer = make_answer(known, Question(("query", 0), k=15))
    plain = kinrank.rerank(queries()[:1], arcs(), "none").indices[0]
    assert [one["id"] for one in answer["before"]] == [names()[number] for number in plain[:15]]
    assert [one["id"] for one in answer["after"]] == gallery().search(queries()[:1], 15).ids[0].tolist()
    assert (answer["mode"], answer["method"], answer["certain"], answer["note"]) == ("online", "LPMT()", True, None)
    assert answer["query"]["name"] == "query 0"
    assert all(answer["seconds"][part] > 0 for part in ("search", "rerank"))


def test_every_entry_knows_its_rank_in_the_other_list(known: Collection) -> None:
    answer = make_answer(known, Question(("query", 0), k=30))
    ranks = {names()[n]: place for place, n in enumerate(kinrank.rerank(queries()[:1], arcs(), "none").indices[0], 1)}
    assert [one["rank"] for one in answer["after"]] == list(range(1, 31))
    for one in answer["after"]:
        rank = ranks[one["id"]]
        assert (one["other"], one["other_beyond"]) == ((rank, None) if rank <= 30 else (None, rank))
    assert any(one["other_beyond"] for one in answer["after"])


def test_copies_know_the_first_of_them(known: Collection) -> None:
    rows = np.repeat(arcs(), 2, axis=0)
    manifold = kinrank.Manifold.build(rows, ids=[f"{name}{copy}" for name in names() for copy in "xy"])
    bare = Collection.open(Files(), manifold.ids, None)
    answer = make_answer(bare, Question(("item", "a07x"), k=9), manifold)
    ids = [one["id"] for one in answer["after"]]
    copies = [one for one in answer["after"] if one["copy_of"] is not None]
    assert copies
    for one in copies:
        first = ids[one["copy_of"] - 1]
        assert one["copy_of"] < one["rank"]
        assert answer["after"][one["copy_of"] - 1]["copy_of"] is None
        assert first[:-1] == one["id"][:-1], "only equal items are stacked"
    assert all(one["copy_of"] is None for one in make_answer(known, Question(("query", 0), k=30))["after"])


def test_known_ranks_are_counted(known: Collection) -> None:
    count = len(names())
    answer = make_answer(known, Question(("item", "a07"), k=5))
    assert answer["depth"] == {"before": count - 1, "after": count - 1, "items": count - 1}
    few = make_answer(known, Question(("query", 0), parameters={"theta": 0.3}, candidates=20))
    assert few["depth"]["items"] == count


def test_right_results_are_counted(known: Collection) -> None:
    answer = make_answer(known, Question(("query", 0), k=30))
    right = [one["right"] for one in answer["after"]]
    assert right == [one["id"][0] == "a" for one in answer["after"]]
    scores = answer["scores"]
    assert scores["after"]["right"] == sum(right)
    assert scores["after"]["precision"] == sum(right) / 30
    assert scores["after"]["precision"] > scores["before"]["precision"]
    assert answer["known_right"] == LENGTH
    truth = kinrank.Truth.from_labels(["a"], [name[0] for name in names()])
    plain, better = kinrank.rerank(queries()[:1], arcs(), "none"), gallery().search(queries()[:1], 80)
    for side, ranking in (("before", plain), ("after", better)):
        expected = kinrank.evaluate(ranking.indices, truth)["mAP"]
        assert scores[side]["average_precision"] == pytest.approx(expected.mean)


def test_nothing_is_judged_where_nothing_is_known(known: Collection) -> None:
    answer = make_answer(known, Question(("vector", queries()[0].tolist()), k=5))
    assert (answer["judged"], answer["scores"], answer["known_right"]) == (False, None, None)
    assert answer["query"] == {"id": None, "name": "your vector", "label": None, "text": None, "picture": None}


@pytest.mark.parametrize("how", [{}, {"method": "aqe"}, {"parameters": {"theta": 0.2}, "candidates": 50}])
def test_a_query_item_is_in_neither_list(known: Collection, how: dict[str, Any]) -> None:
    answer = make_answer(known, Question(("item", "a07"), k=79, **how))
    for side in ("before", "after"):
        assert len(answer[side]) == 79
        assert "a07" not in [one["id"] for one in answer[side]]
    assert answer["query"]["id"] == "a07"
    assert answer["known_right"] == LENGTH - 1


def test_another_method_says_that_it_saw_the_nearest_only(known: Collection) -> None:
    answer = make_answer(known, Question(("query", 1), k=5, method="k-reciprocal", parameters={"k1": 9}, candidates=40))
    assert (answer["mode"], answer["method"], answer["certain"]) == ("candidates", "KReciprocal(k1=9)", None)
    only = "nearest were re-ranked: the gallery was prepared for LPMT"
    assert answer["note"] == f"Only the 40 {only}. Choose that method to search all of it."
    other = make_answer(known, Question(("query", 1), k=5, parameters={"theta": 0.3}, candidates=30))
    assert other["note"] == f"Only the 30 {only} with other settings. Reset to search all of it."
    everything = make_answer(known, Question(("query", 1), k=5, method="k-reciprocal", candidates=1000))
    assert (everything["mode"], everything["note"]) == ("candidates", None)  # the graph has every item


def test_marked_items_are_reported_and_left_out_of_both_lists(known: Collection) -> None:
    answer = make_answer(known, Question(("query", 0), k=30, positives=[FAR], negatives=["b00"]))
    assert [card["id"] for card in answer["marked"]["positives"]] == [FAR]
    assert answer["note"] is None
    for side in ("before", "after"):
        assert not {FAR, "b00"} & {one["id"] for one in answer[side]}
    small = make_answer(known, Question(("query", 0), positives=[FAR], parameters={"theta": 0.3}, candidates=60))
    assert FAR not in [one["id"] for one in small["after"]]
    other = make_answer(known, Question(("query", 0), k=30, method="aqe", positives=["a01"]))
    assert "AQE cannot use marked items, so they have no effect here." in other["note"]
    assert "a01" in [one["id"] for one in other["after"]]


@pytest.mark.parametrize(
    ("question", "words"),
    [
        (
            Question(("item", "nobody")),
            "item 'nobody' is not in this gallery; give the id of one that is, such as 'a00'",
        ),
        (Question(("item", ["a00"])), "is not in this gallery"),
        (Question(("query", 5)), "query 5 does not exist; give a number from 0 to 4"),
        (Question(("query", True)), "query True does not exist"),
        (Question(("vector", [1.0, 2.0])), "vector has shape (1, 2) but 12 dimensions are needed"),
        (Question(("vector", [0.0] * 12)), "vector row 0 is a zero vector"),
        (Question(("vector", np.ones((2, 12)))), "vector has 2 rows; give one"),
        (Question(("name", "x")), "query='name' is not allowed"),
        (Question(("query", 0), k=0), "k=0 is not allowed"),
        (Question(("query", 0), candidates=0), "candidates=0 is not allowed"),
        (Question(("query", 0), method="nonsense"), "method 'nonsense' is not known"),
        (Question(("query", 0), positives=["nobody"]), "positives contains 'nobody'"),
        (Question(("query", 0), positives=["a00"], negatives=["a00"]), "as right or as wrong, not both"),
    ],
)
def test_invalid_questions_have_an_error_message(known: Collection, question: Question, words: str) -> None:
    with pytest.raises(ValueError) as error:
        build_rank_page(gallery(), known, question)
    assert words in str(error.value)


def test_vectors_come_as_they_were_given(known: Collection) -> None:
    rows = arcs() * np.float32(5)
    manifold = kinrank.Manifold.build(rows, metric="euclidean")
    assert get_query_vector(manifold, known, ("item", 7)) == pytest.approx(rows[7], rel=1e-6)
    answer = make_answer(known, Question(("item", 7), k=3), manifold)
    nearest = answer["before"][0]
    assert nearest["distance"] == pytest.approx(float(np.linalg.norm(rows[7] - rows[nearest["id"]])), rel=1e-5)


# Python code


def call(lines: str) -> dict[str, Any]:
    """Return the call of the client without running it."""
    program = ast.parse(lines)
    given = {node.targets[0].id: node.value for node in program.body if isinstance(node, ast.Assign)}
    assert [ast.unparse(node) for node in program.body[::3][:1]] == ["import kinrank as kr"]
    question = given["ranking"]
    assert ast.unparse(question.func) == "client.search"
    named = {word.arg: ast.unparse(word.value) for word in question.keywords}
    vector = ast.unparse(given["vector"]) if "vector" in given else None
    return {name: ast.literal_eval(text.replace("vector", vector or "vector")) for name, text in named.items()}


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        (Question(("query", 2)), {"numbers": [2], "k": 20}),
        (Question(("item", "a03"), k=5), {"ids": ["a03"], "k": 5}),
        (
            Question(("query", 2), method="aqe", candidates=9),
            {"numbers": [2], "k": 20, "method": "aqe", "candidates": 9},
        ),
        (Question(("query", 2), method="lpmt", candidates=9), {"numbers": [2], "k": 20}),
        (
            Question(("query", 2), parameters={"theta": 0.3, "rho": None}, positives=["a01"]),
            {"numbers": [2], "k": 20, "parameters": {"theta": 0.3, "rho": None}, "candidates": 1000}
            | {"positives": ["a01"]},
        ),
    ],
)
def test_the_lines_of_python_ask_for_the_same(known: Collection, question: Question, expected: dict[str, Any]) -> None:
    assert call(make_answer(known, question)["python"]) == expected


def test_the_lines_hold_a_vector_that_was_given(known: Collection) -> None:
    given = call(make_answer(known, Question(("vector", queries()[0].tolist())))["python"])
    assert np.array_equal(np.array(given["queries"], np.float32)[0], queries()[0])


def test_no_id_and_no_address_can_be_code(known: Collection) -> None:
    evil = """x"]); import os; os.system('true') #"""
    manifold = kinrank.Manifold.build(arcs()[:3], ids=[evil, "'", "\\"])
    for name in (evil, "'", "\\"):
        question = Question(("item", name), positives=[other for other in (evil, "'") if other != name])
        lines = build_rank_page(manifold, known, question, address="""http://x'"\n""")["python"]
        assert call(lines) == {"ids": [name], "k": 20, "positives": question.positives}
        assert len(lines.splitlines()) == 5


# the chain


def test_the_chain_is_that_of_the_library(known: Collection) -> None:
    answer = why(known, Question(("query", 0), k=30), FAR)
    expected = gallery().explain(queries()[0], FAR)
    assert answer["reached"]
    assert [step["to"]["id"] for step in answer["steps"]] == list(expected.names)
    assert [step["cost"] for step in answer["steps"]] == pytest.approx(list(expected.costs))
    assert [step["moved"] for step in answer["steps"]] == pytest.approx(list(expected.moved))
    for name in ("total", "distance", "shared", "direct"):
        assert answer[name] == pytest.approx(getattr(expected, name), rel=1e-5)
    assert (answer["rank_before"], answer["rank_after"]) == (expected.rank_before, expected.rank_after)


def test_steps_hang_together(known: Collection) -> None:
    steps = why(known, Question(("query", 0)), FAR)["steps"]
    assert len(steps) > 1
    assert steps[0]["from"]["name"] == "query 0"
    assert all(one["to"] == two["from"] for one, two in itertools.pairwise(steps))
    assert sum(step["share"] for step in steps) == pytest.approx(1.0)
    for step in steps:
        assert 0 < len(step["flows"]) <= 8
        masses = [flow["mass"] for flow in step["flows"]]
        assert masses == sorted(masses, reverse=True)
        assert sum(masses) <= step["moved"] + 1e-6


def test_the_chain_of_an_item_starts_at_it(known: Collection) -> None:
    pairs = ((asking, item) for asking in names()[:LENGTH] for item in names()[:LENGTH] if item != asking)
    found = (
        (pair, gallery().explain(get_query_vector(gallery(), known, ("item", pair[0])), pair[1])) for pair in pairs
    )
    (asking, item), plain = next((pair, one) for pair, one in found if one.names[0] == pair[0])  # by its own place
    answer = why(known, Question(("item", asking)), item)
    assert [step["to"]["id"] for step in answer["steps"]] == list(plain.names[1:])
    assert answer["steps"][0]["from"]["id"] == asking
    assert sum(step["cost"] for step in answer["steps"]) == pytest.approx(plain.total)
    shown = make_answer(known, Question(("item", asking), k=79))
    assert answer["rank_after"] == next(one["rank"] for one in shown["after"] if one["id"] == item)


def test_over_candidates_the_chain_is_that_of_their_graph(known: Collection) -> None:
    answer = why(known, Question(("query", 0), parameters={"theta": 0.3}, candidates=80), FAR)
    expected = kinrank.explain(queries()[:1], arcs(), query=0, item=names().index(FAR), method=kinrank.LPMT(theta=0.3))
    assert [step["cost"] for step in answer["steps"]] == pytest.approx(list(expected.costs), rel=1e-4)
    assert [step["to"]["id"] for step in answer["steps"]] == [names()[number] for number in expected.items[1:]]
    assert answer["rank_after"] < answer["rank_before"]


def test_items_that_were_not_reranked_have_no_chain(known: Collection) -> None:
    answer = why(known, Question(("query", 0), parameters={"theta": 0.3}, candidates=20), FAR)
    assert (answer["reached"], answer["total"], answer["steps"]) == (False, None, [])
    assert answer["words"].startswith("It is not among the 20 nearest, and only those were re-ranked.")


def test_methods_without_chains_say_so(known: Collection) -> None:
    answer = why(known, Question(("query", 0), method="aqe"), FAR)
    assert answer["words"].startswith("AQE does not use chains, so there are no steps to show. 80th by distance")
    assert answer["map"]["points"]
    prepared = kinrank.Manifold.build(arcs(), "dfs", ids=names())
    assert why(known, Question(("query", 0)), FAR, prepared)["words"].startswith("DFS does not use chains")


def test_the_sentence_explains_the_rank(known: Collection) -> None:
    forward = why(known, Question(("query", 0)), FAR)
    assert forward["words"].startswith(
        f"Found at rank {forward['rank_before']} by distance, now {forward['rank_after']}"
    )
    assert " steps lead there" in forward["words"]
    shown = make_answer(known, Question(("query", 0), k=80))
    back = next(one for one in shown["before"] if (one["other"] or 0) > one["rank"])
    assert "are reached at less cost" in why(known, Question(("query", 0)), back["id"])["words"]
    assert why(known, Question(("item", "a00")), "a00")["words"] == "This is the query itself."
    marked = why(known, Question(("query", 0), positives=["a10"]), FAR)
    assert marked["words"].endswith("Marked items also had an influence, which the chain does not show.")
    marked = why(known, Question(("query", 0), positives=[FAR]), FAR)
    assert marked["words"] == "You marked this item, so it is not ranked."


def test_only_steps_below_the_measured_distance_are_alike(known: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    answer, question = why(known, Question(("query", 0)), FAR), Question(("query", 0))
    assert len(answer["steps"]) > 1
    places = [queries()[0], *(arcs()[names().index(one["to"]["id"])] for one in answer["steps"])]
    unit = [row / np.linalg.norm(row) for row in places]
    lengths = [float(np.linalg.norm(a - b)) for a, b in itertools.pairwise(unit)]
    most, count = sorted(lengths)[-2] * 1.0001, len(lengths)
    for limit, words in (
        (min(lengths) / 2, " lead there."),
        (most, f" lead there, {count - 1} of them between items "),
    ):
        monkeypatch.setattr(Likeness, "measure", classmethod(lambda cls, _, limit=limit: cls(limit, 0.0)))
        assert words in why(known, question, FAR)["words"].replace(";", ".")


def test_ranks_beyond_the_lists_are_counted_correctly(known: Collection) -> None:
    answer = why(known, Question(("query", 0), parameters={"theta": 0.3}, candidates=20), FAR)
    assert "1000" not in answer["words"]
    assert f"the first {answer['depth']['after']}" in answer["words"] or "80th" in answer["words"]


def test_where_no_chain_leads_the_words_say_so(known: Collection) -> None:
    rows = np.zeros((40, 12), np.float32)
    rows[:20, 0], rows[20:, 1] = 1.0, 1.0
    rows += np.random.default_rng(3).normal(0, 1e-3, rows.shape).astype(np.float32)
    answer = why(known, Question(("item", 0)), 30, kinrank.Manifold.build(rows, kinrank.LPMT(k=4, k1=5, path_k=3)))
    assert not answer["reached"]
    assert "no chain leads there, so only its plain distance counts" in answer["words"]


def test_an_unknown_item_is_refused(known: Collection) -> None:
    with pytest.raises(ValueError, match="item 'nobody' is not in this gallery"):
        build_chain_page(gallery(), known, Question(("query", 0)), "nobody")


def test_chains_may_pass_through_remembered_queries(known: Collection) -> None:
    manifold = kinrank.Manifold.build(arcs(), ids=names())
    manifold.observe(arcs(5)[:LENGTH])
    for item in names()[LENGTH // 2 : LENGTH]:
        expected = manifold.explain(queries()[0], item)
        if "remembered" in expected.kinds:
            break
    answer = why(known, Question(("query", 0)), item, manifold)
    assert [step["to"]["name"] for step in answer["steps"]] == list(expected.names)
    passed = [step["to"] for step in answer["steps"] if step["to"]["name"].startswith("remembered query ")]
    assert passed
    assert all(card["id"] is None and card["picture"] is None for card in passed)
    assert len(answer["map"]["chain"]) == len(answer["steps"]) + 1


# a first view


def test_the_example_is_right_and_reached_by_small_steps(known: Collection) -> None:
    found = find_example(gallery(), known)
    assert found is not None
    assert found == find_example(gallery(), known)
    question = Question(("query", found["query"]["query"]))
    answer = why(known, question, found["item"])
    assert answer["rank_before"] > 20 >= answer["rank_after"]
    assert len(answer["steps"]) > 1
    assert answer == why(known, question, found["item"])
    rows = dict(zip(names(), arcs(), strict=True)) | {f"query {number}": row for number, row in enumerate(queries())}
    unit = {name: row / np.linalg.norm(row) for name, row in rows.items()}
    places = [answer["steps"][0]["from"]["name"], *(one["to"]["name"] for one in answer["steps"])]
    lengths = [np.linalg.norm(unit[a] - unit[b]) for a, b in itertools.pairwise(places)]
    assert max(lengths) < answer["distance"] / 2, "small steps"
    assert max(one["share"] for one in answer["steps"]) < 0.5, "no step is most of the chain"
    entry = next(one for one in make_answer(known, question)["after"] if one["id"] == found["item"])
    assert entry["right"]


def test_without_queries_items_are_tried() -> None:
    bare = Collection.open(Files(), np.array(names(), object), None)
    found = find_example(gallery(), bare)
    assert found is not None
    assert found["query"]["item"] in names()


def test_no_example_where_nothing_moves(known: Collection) -> None:
    assert find_example(kinrank.Manifold.build(arcs()[:2]), known) is None
    empty = kinrank.Manifold.build(arcs()[:1])
    empty.remove([0])
    assert find_example(empty, known) is None
    assert make_answer(known, Question(("query", 0)), empty)["after"] == []


def test_the_lines_print_the_same_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("fastapi", reason="the service needs the extra [web]")
    from web.small_service import listening, settings_in

    settings = settings_in(tmp_path)
    manifold = kinrank.Manifold.load(settings.manifold)
    bare = Collection.open(Files(), manifold.ids, None)
    how: list[dict[str, Any]] = [
        {},
        {"method": "k-reciprocal", "parameters": {"k1": 7}, "candidates": 30},
        {"positives": ["item_040"], "negatives": ["item_004"]},
    ]
    with listening(settings) as address:
        for query, more in itertools.product((("item", "item_003"), ("vector", [1.0, 0.5] + [0.0] * 6)), how):
            answer = build_rank_page(manifold, bare, Question(query, 8, **more), address)
            exec(compile(answer["python"], "lines", "exec"), {})
            assert capsys.readouterr().out.split("'")[1::2] == [one["id"] for one in answer["after"]]


# learned methods


def test_a_gallery_of_lattqe_is_looked_at_without_its_file_and_gss_says_when_it_is_not_trained(
    known: Collection, tmp_path: Path
) -> None:
    manifold = kinrank.Manifold.build(arcs(), add_random_weights("lattqe", tmp_path / "w.npz", DIMENSIONS), ids=names())
    (tmp_path / "w.npz").unlink()
    answer = make_answer(known, Question(("query", 0), parameters={"k": 16}), manifold)
    assert (answer["mode"], answer["method"]) == ("online", "LAttQE(weights='w.npz')")
    trained = kinrank.Manifold.build(arcs(), kinrank.methods.GSS(epochs=3), ids=names())
    assert make_answer(known, Question(("query", 0)), trained)["method"] == "GSS(epochs=3)"
    assert make_answer(known, Question(("query", 0), parameters={"kq": 3}), trained)["method"] == "GSS(kq=3, epochs=0)"
