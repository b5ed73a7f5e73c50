"""Explanations: chains from the query to the item, costs that sum to the distance, and refused input."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import kinrank
from engines.fake_engine import Engine
from kinrank.chain import Chain
from kinrank.joint_explanation import explain, explain_in_graph
from kinrank.methods import LPMT
from kinrank.methods.base import for_candidates
from kinrank.problem import Items
from kinrank.progress import SILENT
from kinrank.stages import step_costs
from kinrank.stages.csr import matrix_from_rows
from kinrank.stages.transport import TransportSettings
from kinrank.vector_input import to_unit_rows
from kinrank_bench.paper.lpmt_ablation import LPMTAblation
from reference import lpmt as twin

METHOD = LPMT(k1=12, k2=4, k=5, path_k=5, transport="exact", rho=1.0, gamma=3.0)


def arc(n: int = 40) -> NDArray[np.float32]:
    """Return items along a wavy arc, so that a chain has to pass through many of them."""
    angles = np.linspace(0.0, 2.6, n) + 0.01 * np.random.default_rng(0).standard_normal(n)
    rows = np.stack([np.cos(angles), np.sin(angles), 0.2 * np.sin(7 * angles)], axis=1)
    return to_unit_rows(rows.astype(np.float32))


def separate() -> NDArray[np.float32]:
    """Return two groups that no step connects."""
    rng = np.random.default_rng(1)
    return to_unit_rows((np.repeat(np.eye(4)[:2], 15, axis=0) + 0.05 * rng.standard_normal((30, 4))).astype(np.float32))


def cost_of(prepared: Any, a: int, b: int) -> float:
    """Return W(p_a, p_b; d^rho)^gamma of a single step."""
    how = TransportSettings(prepared.powers.rho, prepared.powers.gamma, 0.05, 0)
    pair = np.array([min(a, b)]), np.array([max(a, b)], np.int32)
    return float(step_costs.price_pairs(*pair, prepared.states, prepared.items.vectors, how)[0])


def test_chain_starts_at_the_query_ends_at_the_item_and_its_costs_sum_to_the_total() -> None:
    rows = arc()
    for query, item in [(0, 39), (39, 0), (3, 20), (7, 8)]:
        found = explain(None, rows, query=query, item=item, method=METHOD)
        assert found.reached
        assert found.items[0] == query
        assert found.items[-1] == item
        assert found.kinds[0] == "query"
        assert set(found.kinds[1:]) <= {"item"}
        assert len(found.costs) == len(found.items) - 1 == len(found.flows)
        assert sum(found.costs) == pytest.approx(found.total, rel=1e-5)
        assert found.distance == pytest.approx(float(np.linalg.norm(rows[query] - rows[item])), rel=1e-5)
    assert len(explain(None, rows, query=0, item=39, method=METHOD).items) > 3


def test_every_step_costs_what_its_transport_costs() -> None:
    rows = arc()
    prepared = METHOD.prepare(Items.from_gallery(rows), SILENT)
    found = explain_in_graph(prepared, 0, 39)
    for a, b, cost in zip(found.items, found.items[1:], found.costs, strict=False):
        assert cost == pytest.approx(cost_of(prepared, a, b), rel=1e-3)


def test_totals_are_the_distances_that_rank_the_items() -> None:
    """With theta = 0 and the plain fusion, d* is d': explanation and ranking must show the same number."""
    rows = arc()
    method = LPMTAblation(k1=12, k2=4, k=5, path_k=5, theta=0.0, fusion="plain")
    queries, gallery = rows[::8], np.delete(rows, np.s_[::8], axis=0)
    ranking = kinrank.rerank(queries, gallery, method)
    for query in range(len(queries)):
        for place in (0, 5, 17, len(gallery) - 1):
            item = int(ranking.indices[query, place])
            found = explain(queries, gallery, query=query, item=item, method=method)
            assert found.total == pytest.approx(float(ranking.distances[query, place]), rel=1e-5)


def test_links_of_a_joint_chain_are_numbered_among_queries_and_among_the_gallery() -> None:
    rows = arc()
    queries, gallery = rows[::3], np.delete(rows, np.s_[::3], axis=0)
    found = explain(queries, gallery, query=0, item=len(gallery) - 1, method=METHOD)
    assert found.kinds[0] == "query"
    assert found.kinds[-1] == "item"
    assert "query" in found.kinds[1:]  # in the joint graph other queries are links too
    for kind, number in zip(found.kinds, found.items, strict=True):
        assert 0 <= number < (len(queries) if kind == "query" else len(gallery))
    along = [queries[n] if kind == "query" else gallery[n] for kind, n in zip(found.kinds, found.items, strict=True)]
    steps = np.linalg.norm(np.diff(along, axis=0), axis=1)
    assert steps.max() < 0.5 * found.distance  # small steps in every list


def test_flows_are_the_largest_movements_of_each_step() -> None:
    rows = arc()
    prepared = METHOD.prepare(Items.from_gallery(rows), SILENT)
    all_flows = explain_in_graph(prepared, 0, 39, flows=1000).flows
    few = explain_in_graph(prepared, 0, 39, flows=2).flows
    chain = explain_in_graph(prepared, 0, 39).items
    for moved, kept, a, b in zip(all_flows, few, chain, chain[1:], strict=False):
        assert moved[:2] == kept
        assert sum(mass * cost for _, _, mass, cost in moved) ** 3 == pytest.approx(cost_of(prepared, a, b), rel=1e-3)


def test_an_item_no_chain_leads_to_is_said_to_be_unreached() -> None:
    found = explain(None, separate(), query=0, item=29, method=LPMT(k1=8, k2=3, k=4, path_k=4))
    assert not found.reached
    assert found.total == float("inf")
    assert found.costs == ()
    assert found.items == (29,)
    assert "no chain" in str(found)
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["total"] is None


def test_an_item_explains_itself_by_no_step_at_all() -> None:
    found = explain(None, arc(), query=5, item=5, method=METHOD)
    assert found.items == (5,)
    assert found.total == 0.0
    assert found.reached
    assert "no chain" not in str(found)


def test_words_and_dictionary_tell_the_same_chain() -> None:
    found = explain(None, arc(), query=0, item=20, method=METHOD)
    output = found.to_dict()
    assert [link["number"] for link in output["chain"]] == list(found.items)
    assert output["total"] == found.total
    assert json.loads(json.dumps(output, allow_nan=False)) == output
    lines = str(found).splitlines()
    assert lines[0] == "query 0"
    assert len(lines) == len(found.items) + 1
    assert lines[-2].startswith("  -> item 20 ")
    pattern = re.compile(r"  -> item \d+   (\d+)% of the cost, moves \d+%, entropy \S+")
    shares = [int(pattern.sub(r"\1", line)) for line in lines[1:-1]]
    assert abs(sum(shares) - 100) <= len(shares) / 2


@pytest.mark.parametrize(
    ("query", "item", "name"), [(-1, 0, "query"), (40, 0, "query"), (0, -1, "item"), (0, 40, "item")]
)
def test_numbers_that_do_not_exist_are_refused_by_name(query: int, item: int, name: str) -> None:
    with pytest.raises(ValueError, match=f"{name}=.*from 0 to 39"):
        explain(None, arc(), query=query, item=item, method=METHOD)


def test_a_single_query_needs_no_number() -> None:
    rows = arc()
    found = explain(rows[0], rows[1:], item=19, method=METHOD)
    assert found == explain(rows[:1], rows[1:], query=0, item=19, method=METHOD)
    with pytest.raises(ValueError, match=r"query=None.*from 0 to 1"):
        explain(rows[:2], rows[2:], item=19, method=METHOD)


@pytest.mark.parametrize("method", ["aqe", "none", kinrank.methods.AQE(), LPMTAblation(distance="jaccard")])
def test_methods_without_chains_are_refused(method: Any) -> None:
    with pytest.raises(ValueError, match=r"(without|no) chains"):
        explain(None, arc(), query=0, item=1, method=method)


@pytest.mark.parametrize("distance", ["total_variation", "jaccard", "cosine", "euclidean"])
def test_states_compared_directly_have_no_chains_and_say_so(distance: str) -> None:
    with pytest.raises(
        ValueError, match=f"distance='{distance}'\\) has no chains to explain; use `distance=transport`, or LPMT"
    ):
        explain(None, arc(), query=0, item=1, method=LPMTAblation(distance=distance))


def test_ablation_at_its_defaults_explains_as_lpmt_without_wide_states_does() -> None:
    for query, item in [(0, 39), (12, 3)]:
        assert explain(None, arc(), query=query, item=item, method=LPMTAblation()) == explain(
            None, arc(), query=query, item=item, method=LPMT(direct=0)
        )


@pytest.mark.parametrize("direct", [0.25, None])
def test_what_counts_beside_the_chain_is_said(direct: float | None) -> None:
    """The chain is unchanged; the overlap of the wide states and its weight follow it."""
    method, rows = LPMT(direct=direct, direct_support=9), arc()
    prepared = method.prepare(Items.from_gallery(to_unit_rows(rows)), SILENT)
    wide = np.asarray(matrix_from_rows(prepared.wide, len(rows)).toarray())
    for query, item in [(0, 39), (12, 3), (5, 6)]:
        plain, found = (explain(None, rows, query=query, item=item, method=one) for one in (LPMT(direct=0), method))
        apart = twin.total_variation(wide[[query]], wide)
        unit = sorted(apart[0])[method.k]  # the query itself does not count
        assert found.direct > 0
        assert found.direct == pytest.approx(twin.share_of_wide_states(prepared.powers.direct, unit), abs=1e-5)
        assert found.shared == pytest.approx(np.minimum(wide[query], wide[item]).sum(), abs=1e-5)
        assert replace(found, shared=0.0, direct=0.0) == plain
        message = (
            f"; wide neighbourhoods have {found.shared:.0%} in common: this counts {found.direct:.0%}, "
            f"the chain {1 - found.direct:.0%}"
        )
        assert str(found) == str(plain) + message
        assert found.to_dict() == {**plain.to_dict(), "shared": found.shared, "direct": found.direct}
    assert explain(None, rows, query=5, item=6, method=method).shared > 0


def test_a_copy_shares_everything() -> None:
    rows = arc()
    rows[7] = rows[3]
    assert explain(None, rows, query=3, item=7, method=LPMT(direct=0.25)).shared == 1.0


@pytest.mark.parametrize(
    "changed", [{"similarity": "gaussian"}, {"steps": "reciprocal"}, {"region": "knn"}, {"neighbors": "euclidean"}]
)
def test_chains_of_ablations_are_explained_by_their_own_costs(changed: dict[str, Any]) -> None:
    rows, method = arc(), LPMTAblation(k1=12, k2=4, k=5, path_k=5, transport="exact", **changed)
    prepared = method.prepare(
        Items.from_gallery(to_unit_rows(rows)), SILENT
    )  # computed again by `explain`: the last bits differ
    found = explain_in_graph(prepared, 2, 30)
    assert found.reached
    assert found == explain(None, rows, query=2, item=30, method=method)
    for a, b, cost in zip(found.items, found.items[1:], found.costs, strict=False):
        assert cost == pytest.approx(cost_of(prepared, a, b), rel=1e-3)


def test_default_method_explains_and_an_explanation_is_a_value() -> None:
    found = explain(None, arc(), query=0, item=4)
    assert isinstance(found, Chain)
    assert found == explain(None, arc(), query=0, item=4, method=LPMT())


def test_queries_of_another_dimension_are_refused() -> None:
    with pytest.raises(ValueError, match="dimensions"):
        explain(np.ones((1, 5)), arc(), query=0, item=0, method=METHOD)


def test_candidates_are_explained_as_they_are_ranked() -> None:
    rows, query = arc(), arc()[:1] + np.float32(0.01)
    ids = [f"n{place:02d}" for place in range(len(rows))]
    engine = Engine(Path()).make(rows, ids)
    ranking = kinrank.rerank(query, engine, METHOD, candidates=15, k=15)
    method = for_candidates(METHOD)
    for place in (0, 7, 14):
        found = explain(query, engine, item=ranking.ids[0, place], method=METHOD, candidates=15)
        assert found.links[-1].name == ranking.ids[0, place]
        number = int(ranking.ids[0, place][1:])
        same = explain(query, rows, item=number, method=METHOD, candidates=15)
        assert (same.total, same.items[1:], same.distance) == (
            found.total,
            tuple(int(name[1:]) for name in found.names),
            found.distance,
        )
        small = np.sort(kinrank.rerank(query, rows, "none", k=15).indices[0])
        joint = explain(query, rows[small], item=int(np.flatnonzero(small == number)[0]), method=method)
        assert (joint.total, joint.costs) == (found.total, found.costs)
    own = explain(None, engine, query="n03", item="n05", method=METHOD, candidates=10)
    assert own.total == explain(None, rows, query=3, item=5, method=METHOD, candidates=10).total
    whole = explain(None, engine, query="n03", item="n05", method=METHOD, candidates="all")
    assert whole.total == explain(None, rows, query=3, item=5, method=METHOD).total
    assert whole.links[-1].name == "n05"
    for wrong in ("n39", "nobody"):
        with pytest.raises(ValueError, match=f"item='{wrong}' is not an item of the graph; give the id of a result"):
            explain(query, engine, item=wrong, method=METHOD, candidates=10)
    with pytest.raises(ValueError, match="contains 'nobody', which MemoryStore"):
        explain(None, engine, query="nobody", item="n05", method=METHOD, candidates=10)
