"""Fingerprints of the measured code: they change with the code of a method, and not with its wording."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kinrank.methods import AQE, LPMT, KReciprocal, NoReranking
from kinrank.methods.csa import CSA
from kinrank_bench import fingerprint as module
from kinrank_bench.fingerprint import (
    digest_module,
    fingerprint_method,
    is_current,
    list_imports,
    list_measured_modules,
)
from kinrank_bench.record import make_record

PROGRAM = '''
"""What it does."""
def f(x):
    """Return twice."""
    if x < 0:
        raise ValueError(f"{x} is negative")
    return 2 * x  # twice
'''


def forget() -> None:
    for function in (
        module._find_source,
        module._parse,
        module.list_imports,
        module.digest_module,
        module._fingerprint_modules,
    ):
        function.cache_clear()  # type: ignore[attr-defined]


@pytest.fixture
def edit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], None]]:
    """Return a function that replaces the source of modules for a test."""
    real, replaced = module._find_source.__wrapped__, dict[str, Path]()

    def change(name: str, text: str) -> None:
        replaced[name] = tmp_path / f"{name}.py"
        replaced[name].write_text(text)
        os.utime(replaced[name], (0, 0))
        forget()

    monkeypatch.setattr(module, "_find_source", lambda name: replaced.get(name) or real(name))
    monkeypatch.setattr(module._find_source, "cache_clear", lambda: None, raising=False)
    yield change
    monkeypatch.undo()
    forget()


def source(name: str) -> str:
    path = module._find_source(name)
    assert path is not None
    return path.read_text("utf-8")


def test_the_path_of_a_method_has_its_stages_and_not_those_of_others() -> None:
    ours = list_measured_modules(LPMT.__module__, module.RERANK)
    assert {"kinrank.stages.states", "kinrank.stages.kernels.nearest_search", "kinrank.neighbors"} <= set(ours)
    plain = list_measured_modules(NoReranking.__module__, module.RERANK)
    assert "kinrank.stages.kernels.nearest_search" in plain
    assert not {"kinrank.methods.lpmt", "kinrank.stages.states", "kinrank.methods"} & set(plain)
    assert {"kinrank.methods.csa.training", "kinrank.methods.csa"} <= set(list_measured_modules(CSA.__module__))


def test_a_package_that_imports_on_use_stands_for_the_modules_that_are_named() -> None:
    found = list_imports("kinrank.methods.k_reciprocal")
    assert {"kinrank.stages.reciprocal_sets", "kinrank.methods.base"} <= found
    assert not {"kinrank.stages", "kinrank.stages.states"} & found


@pytest.mark.parametrize(
    ("old", "new", "counts"),
    [
        ("# twice", "# two times", False),
        ("What it does", "Other words", False),
        ("Return twice", "Return x twice", False),
        ("is negative", "must not be negative", False),
        ("    return 2 * x", "\n    return 2*x", False),
        ("2 * x", "3 * x", True),
        ("x < 0", "x <= 0", True),
    ],
)
def test_wording_and_layout_do_not_count(edit: Callable[[str, str], None], old: str, new: str, counts: bool) -> None:
    edit("kinrank.neighbors", PROGRAM)
    before = digest_module("kinrank.neighbors")
    assert old in PROGRAM
    edit("kinrank.neighbors", PROGRAM.replace(old, new))
    assert (digest_module("kinrank.neighbors") != before) == counts


def test_a_change_counts_for_the_methods_that_use_it(edit: Callable[[str, str], None]) -> None:
    kinds, modes = (LPMT, KReciprocal, AQE), ("joint", "online")

    def now() -> dict[tuple[str, str], str]:
        return {(kind.name, mode): fingerprint_method(kind, mode) for kind in kinds for mode in modes}

    def changed(name: str) -> set[tuple[str, str]]:
        before = now()
        edit(name, source(name) + "\nanything = 1\n")
        after = now()
        return {key for key in before if before[key] != after[key]}

    assert changed("kinrank.methods.lpmt") == {("lpmt", "joint"), ("lpmt", "online")}
    assert changed("kinrank.methods.k_reciprocal") == {("k-reciprocal", "joint"), ("k-reciprocal", "online")}
    assert changed("kinrank.manifold.snapshot") == {(kind.name, "online") for kind in kinds}
    assert changed("kinrank.stages.kernels.nearest_search") == set(now())
    assert changed("kinrank_bench.measurement") == set(now())
    assert changed("kinrank.cli.app") == set()


def test_a_record_knows_whether_it_is_of_this_code(edit: Callable[[str, str], None]) -> None:
    rows = [{"method": "lpmt", "seconds": 1.0}, {"method": "aqe", "seconds": 0.1}]
    record = make_record("speed", {"mode": "joint", "results": rows})
    assert set(record["fingerprints"]) == {"lpmt joint", "aqe joint"}
    assert record["commit"] is None or len(record["commit"].rstrip("+")) == 10
    assert is_current(record)
    edit("kinrank.methods.lpmt", source("kinrank.methods.lpmt") + "\nanything = 1\n")
    assert not is_current(record)
    assert [is_current(record, row) for row in rows] == [False, True]
    del record["fingerprints"]
    assert not is_current(record, rows[1])
    assert not is_current({"bench": "speed", "mode": "joint", "method": "removed-method", "fingerprints": {}})


def test_code_that_changes_while_it_is_measured_has_no_fingerprint(monkeypatch: pytest.MonkeyPatch) -> None:
    path = module._find_source("kinrank.methods.lpmt")
    assert path is not None
    monkeypatch.setattr(module, "_is_changed", lambda name: name == "kinrank.methods.lpmt")
    rows = [{"method": "lpmt"}, {"method": "aqe"}]
    assert set(make_record("speed", {"mode": "joint", "results": rows})["fingerprints"]) == {"aqe joint"}


def test_the_ablation_of_this_package_counts_with_all_that_lpmt_uses() -> None:
    found = module.list_measured_modules("kinrank_bench.paper.lpmt_ablation")
    assert {"kinrank.methods.lpmt", "kinrank.stages.diffusion", "kinrank.stages.states"} <= set(found)
