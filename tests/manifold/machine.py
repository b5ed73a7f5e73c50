"""A state machine that applies random changes to a Manifold and to a simple model of it, and compares them."""

from __future__ import annotations

import pickle
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import kinrank as kr
from kinrank.manifold.verify import verify
from kinrank.stages import diffusion
from kinrank.stages import graph_update as stages_changes
from kinrank.stages.array_storage import POWER_NAMES
from kinrank.vector_input import to_unit_rows
from reference.gallery_model import GalleryModel, Unsure
from reference.random_galleries import KINDS, Rows, rows_of

SMALL = kr.LPMT(k1=12, k2=3, k=4, path_k=4, support=12)
CHAINS: list[kr.Method] = [SMALL, kr.LPMT(), kr.LPMT(k1=8, k2=3, k=3, path_k=3, support=8, direct=0.0)]
EXPANSIONS: list[kr.Method] = [
    kr.methods.NoReranking(),
    kr.methods.AQE(k=3),
    kr.methods.AQEwD(k=4),
    kr.AlphaQE(k=6),
    kr.methods.DQE(k=3, negatives=4),
    kr.methods.AugmentedAQE(k=3, kdba=3),
    kr.methods.AugmentedAlphaQE(k=6, kdba=5),
]
PREPARED = (
    "state_indptr",
    "state_indices",
    "state_data",
    "step_indptr",
    "step_indices",
    "step_data",
    "wide_indptr",
    "wide_indices",
    "wide_data",
    "near_indices",
    "near_distances",
    "graph_indptr",
    "graph_indices",
    "graph_data",
)
SEEDS = st.integers(0, 10_000)


class ManifoldMachine(RuleBasedStateMachine):
    """Random changes of a Manifold, checked against a `GalleryModel`.

    Attributes:
        methods: methods to draw from.
        exact: True if changes follow every difference, so that they equal a rebuild to the last bit.
    """

    methods: list[kr.Method] = CHAINS
    exact = False

    def __init__(self) -> None:
        super().__init__()
        self.home = Path(tempfile.mkdtemp(prefix="kinrank-model-"))
        self.patch = mock.patch.object(stages_changes, "TOLERANCE", 0.0 if self.exact else stages_changes.TOLERANCE)
        self.patch.start()
        self.saves, self.fresh = 0, 0

    def teardown(self) -> None:
        try:
            self.check_against_a_rebuild()
        finally:
            self.patch.stop()
            shutil.rmtree(self.home)

    @initialize(data=st.data(), kind=st.sampled_from(sorted(KINDS)), seed=SEEDS, count=st.integers(1, 60))
    def build(self, data: st.DataObject, kind: str, seed: int, count: int) -> None:
        self.kind, self.gallery = kind, seed % 7
        method = data.draw(st.sampled_from(self.methods), label="method")
        names = data.draw(st.sampled_from([None, "texts", "numbers"]), label="names")
        limit = data.draw(st.sampled_from([None, 4, 30]), label="limit") if self.observes(method) else None
        metric = data.draw(st.sampled_from(["cosine", "cosine", "euclidean"]), label="metric")
        self.texts, self.metric = names == "texts", metric
        rows = self.drawn(seed, count)
        ids = None if names is None else self.new_names(count)
        self.model = GalleryModel(rows, ids, limit, metric == "cosine")
        self.manifold = kr.Manifold.build(rows, method, ids=ids, metric=metric, observed_limit=limit)

    @staticmethod
    def observes(method: kr.Method) -> bool:
        return isinstance(method, kr.LPMT)

    def drawn(self, seed: int, count: int) -> Rows:
        return rows_of(self.kind, seed, count, gallery=self.gallery)

    def new_names(self, count: int) -> list[Any]:
        self.fresh += count
        numbers = range(self.fresh - count, self.fresh)
        return [f"n{number}" for number in numbers] if self.texts else [3 * number for number in numbers]

    def there(self) -> bool:
        return len(self.model.items) > 0

    def some(self, data: st.DataObject, most: int = 6) -> list[Any]:
        """Draw the ids of some items."""
        return data.draw(st.lists(st.sampled_from(self.model.names), min_size=1, max_size=most, unique=True))

    @rule(seed=SEEDS, count=st.integers(0, 25))
    def add(self, seed: int, count: int) -> None:
        rows = self.drawn(seed, count)
        names = self.new_names(count) if self.model.named else None
        self.manifold.add(rows, names)
        self.model.put(rows, names)

    @precondition(there)
    @rule(data=st.data())
    def add_copies(self, data: st.DataObject) -> None:
        """Add exact copies of existing items."""
        rows = np.stack([self.model.items[name] for name in self.some(data)])
        names = self.new_names(len(rows)) if self.model.named else None
        self.manifold.add(rows, names)
        self.model.put(rows, names)

    @precondition(there)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        names = self.some(data, 12)
        self.manifold.remove(names)
        self.model.remove(names)

    @precondition(there)
    @rule()
    def remove_all(self) -> None:
        names = self.model.names
        self.manifold.remove(names)
        self.model.remove(names)

    @precondition(lambda self: self.model.named and self.there())
    @rule(data=st.data(), seed=SEEDS, new=st.integers(0, 3))
    def upsert(self, data: st.DataObject, seed: int, new: int) -> None:
        names = [*self.some(data), *self.new_names(new)]
        rows = self.drawn(seed, len(names))
        self.manifold.upsert(rows, names)
        self.model.put(rows, names)

    @precondition(lambda self: self.observes(self.manifold.method))
    @rule(seed=SEEDS, count=st.integers(0, 12), twice=st.booleans())
    def observe(self, seed: int, count: int, twice: bool) -> None:
        queries = self.drawn(seed, count)
        queries = np.concatenate([queries, queries[:2]]) if twice else queries
        try:
            expected = self.model.observe(queries)
        except Unsure:
            return
        assert self.manifold.observe(queries) == expected

    @precondition(lambda self: not self.observes(self.manifold.method))
    @rule(seed=SEEDS)
    def observe_without_chains(self, seed: int) -> None:
        with pytest.raises(ValueError, match=type(self.manifold.method).__name__):
            self.manifold.observe(self.drawn(seed, 1))

    @rule()
    def forget(self) -> None:
        self.manifold.forget()
        self.model.forget()

    @rule()
    def refresh(self) -> None:
        self.manifold.refresh()
        assert self.manifold.staleness == 0.0

    @rule(seed=SEEDS, k=st.integers(1, 90))
    def search(self, seed: int, k: int) -> None:
        queries = self.drawn(seed, 3)
        found = self.manifold.search(queries, k=k)
        assert found.ids.shape == (3, min(k, len(self.model.items)))
        self.check_ranking(found, set(self.model.items))

    @precondition(there)
    @rule(data=st.data(), seed=SEEDS, k=st.integers(1, 20))
    def search_among(self, data: st.DataObject, seed: int, k: int) -> None:
        allowed = self.some(data, 10)
        found = self.manifold.search(self.drawn(seed, 2), k=k, where=set(allowed))  # the list [0] could be a mask
        self.check_ranking(found, set(allowed))

    def check_ranking(self, found: kr.Ranking, allowed: set[Any]) -> None:
        """Check that rows contain only allowed items, each once, with finite ascending distances, then padding."""
        for places, names, distances in zip(found.indices, found.ids.tolist(), found.distances, strict=True):
            count = int((places >= 0).sum())
            assert (places[:count] >= 0).all()
            assert set(names[:count]) <= allowed
            assert len(set(names[:count])) == count
            assert count == min(len(allowed), len(places))
            assert np.isfinite(distances[:count]).all()
            assert (np.diff(distances[:count]) >= 0).all()

    @precondition(lambda self: self.there() and self.observes(self.manifold.method))
    @rule(data=st.data(), seed=SEEDS)
    def explain(self, data: st.DataObject, seed: int) -> None:
        item, query = data.draw(st.sampled_from(self.model.names)), self.drawn(seed, 1)
        why = self.manifold.explain(query[0], item)
        assert why.names[-1] == item
        assert all(cost >= 0 for cost in why.costs)
        assert np.isclose(why.total, sum(why.costs)) if why.costs else np.isinf(why.total)
        assert 1 <= why.rank_before <= len(self.model.items)
        assert 1 <= why.rank_after <= len(self.model.items)

    @rule(again=st.booleans(), mmap=st.booleans(), seed=SEEDS)
    def save_and_load(self, again: bool, mmap: bool, seed: int) -> None:
        """Save to the previous folder, which writes only the changes, or to a new one; then load."""
        self.saves += not again or not self.saves
        folder = self.home / f"m{self.saves}"
        self.manifold.save(folder)
        assert verify(folder).whole
        loaded = kr.Manifold.load(folder, mmap=mmap)
        self.check_same(loaded, seed)
        self.manifold = loaded

    @rule(seed=SEEDS)
    def pickle(self, seed: int) -> None:
        arrived = pickle.loads(pickle.dumps(self.manifold))
        self.check_same(arrived, seed)
        self.manifold = arrived

    def check_same(self, other: kr.Manifold, seed: int) -> None:
        """Check that another Manifold equals this one to the last bit."""
        assert other.ids.tolist() == self.manifold.ids.tolist()
        assert other.info() == self.manifold.info()
        for k in (3, 200):
            mine, theirs = (one.search(self.drawn(seed, 3), k=k) for one in (self.manifold, other))
            np.testing.assert_array_equal(mine.ids, theirs.ids)
            np.testing.assert_array_equal(mine.distances, theirs.distances)

    @invariant()
    def holds_what_the_model_holds(self) -> None:
        if not hasattr(self, "model"):
            return
        assert self.manifold.ids.tolist() == self.model.names
        assert len(self.manifold) == len(self.model.items)
        assert self.manifold.n_observed == len(self.model.queries)
        self.check_rows(self.manifold.snapshot.item_vectors, list(self.model.items.values()))
        self.check_rows(self.remembered(), self.model.queries)
        assert 0.0 <= self.manifold.staleness <= 1.0

    def remembered(self) -> Rows:
        snapshot = self.manifold.snapshot
        return snapshot.vectors[snapshot.remembered.queries]

    def check_rows(self, found: Rows, expected: list[Rows]) -> None:
        assert len(found) == len(expected)
        if not expected:
            return
        scale = self.manifold.snapshot.space.scale
        rows = np.stack(expected)
        np.testing.assert_allclose(found, to_unit_rows(rows) if scale is None else rows / scale, rtol=2e-5, atol=1e-6)

    def check_against_a_rebuild(self) -> None:
        """Check what the documentation promises about changes against the same items built at once."""
        if not hasattr(self, "model") or not self.there() or self.metric != "cosine":
            return
        rows = self.model.rows
        if not self.observes(self.manifold.method):  # expansions follow every change at once
            self.check_searches(kr.Manifold.build(rows, self.manifold.method))
            return
        if self.exact:
            self.check_prepared(self.rebuilt())
        self.manifold.forget()
        self.manifold.refresh()
        fresh = kr.Manifold.build(rows, self.manifold.method)
        self.check_prepared(fresh)
        self.check_searches(fresh)

    def rebuilt(self) -> kr.Manifold:
        """Build all rows at once, including observed queries, with the powers and weights measured at the start."""
        snapshot, method = self.manifold.snapshot, self.manifold.method
        assert isinstance(method, kr.LPMT)
        rows = np.empty_like(snapshot.vectors)
        rows[snapshot.remembered.items] = self.model.rows
        if self.model.queries:
            rows[snapshot.remembered.queries] = np.stack(self.model.queries)
        if "beta" not in snapshot.state.to_arrays():  # too few items for graphs, so nothing was measured
            return kr.Manifold.build(rows, method)
        measured: dict[str, Any] = {name: snapshot.state.facts[name] for name in POWER_NAMES}
        powers = replace(method, **measured)
        with mock.patch.object(diffusion, "fit_graph_weights", return_value=snapshot.state.to_arrays()["beta"]):
            return kr.Manifold.build(rows, powers)

    def check_prepared(self, other: kr.Manifold) -> None:
        mine, theirs = self.manifold.snapshot.state.to_arrays(), other.snapshot.state.to_arrays()
        assert set(mine) == set(theirs)
        for name in set(PREPARED) & set(theirs):
            np.testing.assert_array_equal(mine[name], theirs[name], err_msg=name)

    def check_searches(self, other: kr.Manifold) -> None:
        """Check that both return the same items at the same distances; `other` numbers them by position."""
        mine, theirs = (one.search(self.drawn(1, 3), k=8) for one in (self.manifold, other))
        assert mine.ids.tolist() == [[self.model.names[place] for place in row] for row in theirs.ids.tolist()]
        np.testing.assert_array_equal(mine.distances, theirs.distances)
