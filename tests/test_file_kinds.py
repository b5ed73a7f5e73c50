"""`kinrank.load` opens whatever kinrank saves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import kinrank as kr
from kinrank.errors import InputError, MissingFileError
from kinrank_bench.random_weights import add_random_weights

ROWS = np.random.default_rng(0).standard_normal((30, 6)).astype(np.float32)


@pytest.mark.parametrize("ending", ["npz", "trec", "csv", "parquet"])
def test_rankings(tmp_path: Path, ending: str) -> None:
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    ranking = kr.rerank(ROWS[:3], ROWS, "none", k=5)
    ranking.save(tmp_path / f"r.{ending}")
    found = kr.load(tmp_path / f"r.{ending}")
    assert isinstance(found, kr.Ranking)
    assert np.array_equal(found.indices, ranking.indices)


def test_other_objects(tmp_path: Path) -> None:
    kr.Manifold.build(ROWS, "aqe").save(tmp_path / "m")
    assert isinstance(kr.load(tmp_path / "m"), kr.Manifold)
    kr.whitening.Whitening.fit(ROWS).save(tmp_path / "w.npz")
    assert isinstance(kr.load(str(tmp_path / "w.npz")), kr.whitening.Whitening)
    for name in ("csa", "ssr", "lattqe"):
        method = add_random_weights(name, tmp_path / f"{name}.npz", 6)
        assert kr.load(tmp_path / f"{name}.npz") == method


def test_vectors(tmp_path: Path) -> None:
    np.save(tmp_path / "v.npy", ROWS)
    np.savez(tmp_path / "two.npz", q=ROWS[:2], g=ROWS)
    np.savetxt(tmp_path / "v.csv", ROWS, delimiter=",")
    assert np.array_equal(kr.load(tmp_path / "v.npy"), ROWS)
    assert np.array_equal(kr.load(f"{tmp_path / 'two.npz'}:q"), ROWS[:2])
    with pytest.raises(InputError, match=r"choose one with FILE:KEY: q \(2, 6\), g"):
        kr.load(tmp_path / "two.npz")
    np.testing.assert_allclose(kr.load(tmp_path / "v.csv"), ROWS, rtol=1e-6)
    (tmp_path / "v.names.txt").write_text("".join(f"item {row}\n" for row in range(30)))
    (tmp_path / "v.embed.json").write_text('{"made by": {"encoder": "x"}, "skipped": {"y": "broken"}, "left out": {}}')
    found = kr.load(tmp_path / "v.npy")
    assert (found.ids[3], found.skipped, found.facts) == ("item 3", {"y": "broken"}, {"encoder": "x"})
    assert np.array_equal(found.vectors, ROWS)
    (tmp_path / "v.names.txt").write_text("one\n")
    with pytest.raises(InputError, match="has 1 names for 30 rows"):
        kr.load(tmp_path / "v.npy")


def test_anything_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    with pytest.raises(InputError, match=r"unknown ending '.txt'; give .*Ranking.save"):
        kr.load(tmp_path / "a.txt")
    (tmp_path / "a.npz").write_bytes(b"hello")
    with pytest.raises(InputError, match=r"truncated, damaged or not an .npz file"):
        kr.load(tmp_path / "a.npz")
    with pytest.raises(MissingFileError, match="absent"):
        kr.load(tmp_path / "absent.npz")
    with pytest.raises(InputError, match="manifold"):
        kr.load(tmp_path)
