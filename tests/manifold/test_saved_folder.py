"""Saved manifolds: the same answers, complete at any moment, and a clear error for everything else."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import kinrank as kr
from kinrank.errors import ConcurrentSaveError, UnloadableError
from kinrank.files import atomic
from kinrank.files.atomic import LOCK_NAME, folder_lock
from kinrank.files.checksummed_npz import file_checksum
from kinrank.manifold import saved_folder
from kinrank.manifold.saved_folder import MANIFEST, seal_manifest
from kinrank.manifold.verify import verify
from reference.waiting import PATIENCE
from reference.writers import a_gallery, at_once, killed, left_by_lines

pytestmark = pytest.mark.slow

KILLS = int(os.environ.get("KINRANK_KILLS", "40"))


def rows_of(seed: int, items: int = 90) -> NDArray[np.float32]:
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(5, 6))[rng.integers(0, 5, items)] + 0.3 * rng.normal(size=(items, 6))).astype("f4")


@pytest.fixture(scope="module")
def manifold() -> kr.Manifold:
    return kr.Manifold.build(rows_of(1), kr.LPMT(k2=4, theta=0.3), ids=[f"n{i}" for i in range(90)])


@pytest.fixture
def saved(manifold: kr.Manifold, tmp_path: Path) -> Path:
    manifold.save(tmp_path / "one")
    return tmp_path / "one"


def parts_of(folder: Path) -> list[str]:
    """Return the content of a folder by kinds, without the lock."""
    return sorted(path.name.split("-")[0] for path in folder.iterdir() if path.name != LOCK_NAME)


def same(left: kr.Manifold, right: kr.Manifold, queries: NDArray[np.float32]) -> bool:
    a, b = left.search(queries, 20), right.search(queries, 20)
    return np.array_equal(a.indices, b.indices) and np.array_equal(a.distances, b.distances)


@pytest.mark.parametrize("mmap", [True, False])
def test_saved_manifolds_answer_the_same(manifold: kr.Manifold, saved: Path, mmap: bool) -> None:
    loaded = kr.Manifold.load(saved, mmap=mmap)
    assert same(manifold, loaded, rows_of(2, 10))
    assert loaded.method == manifold.method
    assert loaded.ids.tolist() == manifold.ids.tolist()
    assert loaded.info() == manifold.info()
    assert loaded.search(rows_of(2, 3), 2).ids.dtype.kind == "O"


def test_searching_does_not_change_the_files(saved: Path) -> None:
    before = {path: path.read_bytes() for path in saved.rglob("*") if path.is_file()}
    loaded = kr.Manifold.load(saved)
    loaded.search(rows_of(2, 10))
    del loaded
    assert {path: path.read_bytes() for path in saved.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("count", [0, 1, 2])
def test_tiny_manifolds_are_saved(count: int, tmp_path: Path) -> None:
    tiny = kr.Manifold.build(rows_of(3, 90)[:count])
    tiny.save(tmp_path / "tiny")
    loaded = kr.Manifold.load(tmp_path / "tiny")
    assert len(loaded) == count
    assert loaded.search(rows_of(4, 2), 5).indices.shape == (2, count)


def test_saving_again_replaces_and_cleans_up(manifold: kr.Manifold, saved: Path) -> None:
    reader = kr.Manifold.load(saved)  # an old reader keeps its state
    other = kr.Manifold.build(rows_of(5))
    leftover = saved / f"data-{'0' * 32}"
    leftover.mkdir()
    other.save(saved)
    assert same(kr.Manifold.load(saved), other, rows_of(2, 5))
    assert same(reader, manifold, rows_of(2, 5))
    assert len([path for path in saved.iterdir() if path.name.startswith("data-")]) == 1


def test_a_manifold_may_be_saved_over_its_own_files(saved: Path, manifold: kr.Manifold) -> None:
    kr.Manifold.load(saved).save(saved)
    assert same(kr.Manifold.load(saved), manifold, rows_of(2, 5))


def arrays_in(folder: Path) -> list[Path]:
    return sorted(folder.glob("data-*/*.npy"))


@pytest.mark.parametrize("number", range(18))
def test_truncated_altered_and_missing_arrays_are_noticed(saved: Path, number: int) -> None:
    path = arrays_in(saved)[number]
    content = path.read_bytes()
    path.write_bytes(content[:-3])
    with pytest.raises(ValueError, match=r"truncated or was altered"):
        kr.Manifold.load(saved)
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(ValueError, match=r"truncated or was altered"):
        kr.Manifold.load(saved)
    path.unlink()
    with pytest.raises(ValueError, match=f"incomplete: .*{path.name} is missing"):
        kr.Manifold.load(saved)


def edited(saved: Path, seal: bool, **changes: Any) -> None:
    manifest = json.loads((saved / MANIFEST).read_text())
    manifest |= changes
    (saved / MANIFEST).write_text(json.dumps(seal_manifest(manifest) if seal else manifest))


@pytest.mark.parametrize(
    ("seal", "changes", "message"),
    [
        (True, {"version": 5, "kinrank": "9.0"}, r"kinrank 9\.0 in format 5, newer than format 4"),
        (True, {"version": "1"}, "was altered"),
        (True, {"format": "something"}, "not the manifest of a kinrank manifold"),
        (False, {"method": "dfs"}, "was altered"),
        (False, {"facts": {"rho": 9.0, "gamma": 1.0}}, "was altered"),
        (True, {"extra": 1}, "was altered"),
        (True, {"method": "tomorrow"}, "'tomorrow', which this version does not have"),
        (True, {"method": kr.KReciprocal.name}, "parameters that KReciprocal does not know"),
        (True, {"parameters": {"k2": -1}}, "k2=-1 is not allowed"),
        (True, {"parameters": {"__class__": "os.system"}}, "does not know: __class__"),
        (True, {"data": "../../etc"}, "lists files that kinrank did not write"),
        (True, {"facts": {}}, "the number rho is missing"),
        (True, {"facts": {"rho": 1.0, "gamma": 2.0, "share": 0.0}}, "numbers of the change record are missing"),
        (True, {"arrays": {}}, "it contains no vectors"),
        (True, {"generation": "7"}, "was altered"),
        (True, {"store": 1}, "was altered"),
        (True, {"changes": {}}, "was altered"),
        (True, {"changes": [{"file": "change-" + 32 * "0"}]}, "was altered"),
        (
            True,
            {"changes": [{"file": "../../etc/passwd", "count": 1, "bytes": 1, "sha256": ""}]},
            "lists files that kinrank did not write",
        ),
    ],
)
def test_foreign_manifests_are_refused(saved: Path, seal: bool, changes: dict[str, Any], message: str) -> None:
    edited(saved, seal, **changes)
    with pytest.raises(ValueError, match=message):
        kr.Manifold.load(saved)


def test_a_folder_of_an_earlier_version_is_to_be_built_again(manifold: kr.Manifold, saved: Path) -> None:
    """As version 1 wrote it, with parameters that have other names now."""
    old = {
        "format": "kinrank manifold",
        "version": 1,
        "kinrank": "0.1.0",
        "method": "lpmt",
        "parameters": {"k1": 60, "rho": 0.0},
        "facts": {"rho": 1.0, "gamma": 2.0},
        "data": "data-" + 32 * "0",
        "arrays": {"vectors": {"dtype": "<f4", "shape": [0, 2], "sha256": 64 * "0"}},
    }
    (saved / MANIFEST).write_text(json.dumps(seal_manifest(old)))
    again = "written by an earlier kinrank in format 1, which this version cannot read; build the manifold again"
    with pytest.raises(ValueError, match=f"{saved} was {again}"):
        kr.Manifold.load(saved)
    with pytest.raises(ValueError, match=again):
        verify(saved)
    manifold.save(saved)  # in its place
    assert same(kr.Manifold.load(saved), manifold, rows_of(2, 5))
    assert parts_of(saved) == ["data", "manifest.json"]


def test_a_custom_method_is_searched_but_not_saved(tmp_path: Path) -> None:
    class Own(kr.DFS):
        name = "own"

    manifold = kr.Manifold.build(rows_of(1, 20), Own(k=5))
    assert manifold.search(rows_of(2, 3), k=4).depth == 4
    with pytest.raises(ValueError, match="Own can be searched but not saved"):
        manifold.save(tmp_path / "own")
    assert not list(tmp_path.glob("own/data-*"))


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\x80\x04\x95", b'"text"'])
def test_manifests_that_are_none_are_refused(saved: Path, content: bytes) -> None:
    (saved / MANIFEST).write_bytes(content)
    with pytest.raises(ValueError, match=r"truncated or is not JSON|not the manifest"):
        kr.Manifold.load(saved)


def crafted(saved: Path, name: str, array: NDArray[Any] | None) -> None:
    """Replace or remove an array, with valid checksums."""
    manifest = json.loads((saved / MANIFEST).read_text())
    if array is None:
        del manifest["arrays"][name]
    else:
        manifest["arrays"][name] = saved_folder.write_array(saved / manifest["data"] / f"{name}.npy", array)
    (saved / MANIFEST).write_text(json.dumps(seal_manifest(manifest)))


@pytest.mark.parametrize("number", [10**6, 90, -2])
@pytest.mark.parametrize(
    "name", ["state_indices", "wide_indices", "step_indices", "graph_indices", "near_indices", "nearest"]
)
def test_crafted_arrays_are_refused_before_kernels_run(saved: Path, name: str, number: int) -> None:
    """With valid checksums and invalid numbers, compiled loops would read outside their arrays."""
    array = np.load(next(saved.glob(f"data-*/{name}.npy")))
    array.reshape(-1)[5] = number
    crafted(saved, name, array)
    with pytest.raises(ValueError, match=f"{name} contains numbers of items that do not exist"):
        kr.Manifold.load(saved)


@pytest.mark.parametrize("name", ["state_indptr", "wide_indptr", "step_indptr", "graph_indptr"])
@pytest.mark.parametrize(("at", "number"), [(0, 1), (-1, 10**6), (5, 10**6), (5, -1)])
def test_crafted_row_pointers_are_refused(saved: Path, name: str, at: int, number: int) -> None:
    array = np.load(next(saved.glob(f"data-*/{name}.npy")))
    array[at] = number
    crafted(saved, name, array)
    with pytest.raises(ValueError, match=f"{name} does not fit {name.replace('indptr', 'indices')}"):
        kr.Manifold.load(saved)


ARRAYS = [
    *(f"{rows}_{part}" for rows in ("state", "wide", "step", "graph") for part in ("indptr", "indices", "data")),
    *("lengths", "near_indices", "near_distances", "nearest", "similar", "beta", "drift"),
]


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_of_another_kind_or_shape_are_refused(saved: Path, name: str) -> None:
    kept = np.load(next(saved.glob(f"data-*/{name}.npy")))
    for wrong in (kept.astype(np.float16), kept[None], kept[:-1]):
        crafted(saved, name, wrong)
        with pytest.raises(ValueError, match="this version can use: "):
            kr.Manifold.load(saved)
    crafted(saved, name, None)
    if name == "nearest":  # without it there is no record: it can be searched, and does not change
        loaded = kr.Manifold.load(saved)
        with pytest.raises(ValueError, match="changes=True"):
            loaded.add(rows_of(2, 1), ["new"])
        return
    with pytest.raises(ValueError, match=f"this version can use: {name} is missing"):
        kr.Manifold.load(saved)


def test_those_are_all_arrays(manifold: kr.Manifold) -> None:
    assert set(ARRAYS) == set(manifold.snapshot.state.to_arrays())


@pytest.mark.parametrize("kind", ["state", "wide"])
@pytest.mark.parametrize(
    ("number", "message"),
    [
        (np.nan, "must hold numbers from 0 to"),
        (-0.1, "must hold numbers from 0 to"),
        (7.0, "must hold numbers from 0 to"),
        (0.9, "must sum to 1 in every row; row 0 sums to"),
    ],
)
def test_states_that_are_not_distributions_are_refused(saved: Path, kind: str, number: float, message: str) -> None:
    data = np.load(next(saved.glob(f"data-*/{kind}_data.npy")))
    data[:3] = number
    crafted(saved, f"{kind}_data", data)
    with pytest.raises(ValueError, match=f"{kind}_data {message}"):
        kr.Manifold.load(saved)


def test_wide_states_longer_than_the_parameters_say_are_refused(saved: Path) -> None:
    given = json.loads((saved / MANIFEST).read_text())["parameters"]
    longest = int(np.diff(np.load(next(saved.glob("data-*/wide_indptr.npy")))).max())
    edited(saved, True, parameters={**given, "direct_support": longest})
    kr.Manifold.load(saved)
    edited(saved, True, parameters={**given, "direct_support": longest - 1})
    with pytest.raises(ValueError, match=f"wide_indptr must give every row 1 to {longest - 1} entries"):
        kr.Manifold.load(saved)


def test_wide_states_that_name_an_item_twice_are_refused(saved: Path) -> None:
    indices = np.load(next(saved.glob("data-*/wide_indices.npy")))
    indices[1] = indices[0]
    crafted(saved, "wide_indices", indices)
    with pytest.raises(ValueError, match="wide_indices must ascend in every row"):
        kr.Manifold.load(saved)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_galleries_with_tight_clusters_are_saved_and_loaded(tmp_path: Path, seed: int) -> None:
    """Version 0.1.0 could not load what it saved of these."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(50, 64))[rng.integers(0, 50, 1000)] + 0.05 * rng.normal(size=(1000, 64))
    built = kr.Manifold.build(rows)
    built.save(tmp_path / "m")
    assert same(kr.Manifold.load(tmp_path / "m"), built, rows[:10].astype("f4"))


PARTS = ("indptr", "indices", "data")


def repeat_entries(saved: Path, kind: str) -> None:
    """Repeat the first entry of every state with mass 0, as version 0.1.0 could save it."""
    indptr, indices, data = (np.load(next(saved.glob(f"data-*/{kind}_{part}.npy"))) for part in PARTS)
    crafted(saved, f"{kind}_indptr", indptr + np.arange(len(indptr)))
    crafted(saved, f"{kind}_indices", np.insert(indices, indptr[:-1], indices[indptr[:-1]]))
    crafted(saved, f"{kind}_data", np.insert(data, indptr[:-1], 0.0))


@pytest.mark.parametrize("kinds", [["wide"], ["state"], ["state", "wide"]])
def test_folders_of_the_first_version_with_repeated_entries_are_repaired(
    saved: Path, manifold: kr.Manifold, kinds: list[str]
) -> None:
    """Version 0.1.0 could save an item twice in a state, and then refused to load it."""
    for kind in kinds:
        repeat_entries(saved, kind)
    loaded = kr.Manifold.load(saved)
    assert same(loaded, manifold, rows_of(2, 10))
    assert verify(saved).whole
    loaded.add(rows_of(6, 3), ["x", "y", "z"])
    loaded.remove(["n4"])
    loaded.save(saved)
    assert "change" in parts_of(saved), "a file of changes is applied to rows that are still to be repaired"
    assert same(kr.Manifold.load(saved), loaded, rows_of(2, 10))
    assert verify(saved).whole


def test_repeated_entries_with_mass_are_still_refused(saved: Path) -> None:
    repeat_entries(saved, "wide")
    data = np.load(next(saved.glob("data-*/wide_data.npy")))
    data[0] = 1e-7
    crafted(saved, "wide_data", data)
    with pytest.raises(ValueError, match="wide_indices must ascend in every row"):
        kr.Manifold.load(saved)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda graph: graph.wide.gaps.__setitem__(1, 0),  # the second item is the first again
        lambda graph: graph.states.scales.__setitem__(0, np.nan),
        lambda graph: graph.steps.indices.__setitem__(0, 10**6),
        lambda graph: graph.lengths.__setitem__(3, 0.0),
    ],
)
@pytest.mark.parametrize("new", [True, False])
def test_an_unloadable_state_is_not_saved(saved: Path, tmp_path: Path, spoil: Any, new: bool) -> None:
    """A bug that corrupts the stored arrays must not replace a good folder by an unreadable one."""
    before = {path: path.read_bytes() for path in saved.rglob("*") if path.is_file()}
    loaded = kr.Manifold.load(saved)
    loaded.add(rows_of(6, 1), ["x"])
    spoil(loaded.snapshot.state.prepared)
    with pytest.raises(UnloadableError, match=r"could not be loaded again .* is unchanged.* bug in kinrank"):
        loaded.save(tmp_path / "new" if new else saved)
    assert not (tmp_path / "new").exists()
    assert {path: path.read_bytes() for path in saved.rglob("*") if path.is_file()} == before
    kr.Manifold.load(saved)


def test_wide_states_with_all_mass_on_one_item_are_as_good_as_any(saved: Path, manifold: kr.Manifold) -> None:
    """The zeros are entries that no other state shares, however many there are."""
    indptr, data = (np.load(next(saved.glob(f"data-*/wide_{part}.npy"))) for part in ("indptr", "data"))
    data[:] = 0.0
    data[indptr[:-1]] = 1.0
    crafted(saved, "wide_data", data)
    loaded = kr.Manifold.load(saved)
    found = loaded.search(rows_of(2, 20), k=90)
    assert np.isfinite(found.distances).all()
    assert all(sorted(row) == list(range(90)) for row in found.indices.tolist())
    few = loaded.search(rows_of(2, 20), k=5)
    np.testing.assert_array_equal(few.distances, found.distances[:, :5])
    loaded.add(rows_of(3, 2), ["new", "newer"])
    assert np.isfinite(loaded.search(rows_of(2, 20), k=9).distances).all()


@pytest.mark.parametrize("share", [-0.1, 1.1])
def test_an_impossible_share_is_refused(saved: Path, share: float) -> None:
    facts = json.loads((saved / MANIFEST).read_text())["facts"]
    edited(saved, True, facts={**facts, "direct": share})
    with pytest.raises(ValueError, match=f"direct={share} is not allowed"):
        kr.Manifold.load(saved)


def without_wide_states(saved: Path) -> None:
    """Convert a folder to the form before wide states existed."""
    manifest = json.loads((saved / MANIFEST).read_text())
    parts = {name: manifest[name] for name in ("arrays", "facts", "parameters")}
    for table in parts.values():
        for name in [name for name in table if name.startswith(("wide_", "direct"))]:
            del table[name]
    edited(saved, True, **parts)


def test_a_folder_without_wide_states_is_searched_by_its_chains(
    saved: Path, manifold: kr.Manifold, tmp_path: Path
) -> None:
    facts = manifold.snapshot.state.facts
    assert facts["direct"] > 0
    without_wide_states(saved)
    assert verify(saved).whole
    loaded, queries = kr.Manifold.load(saved), rows_of(2, 8)
    chains = kr.Manifold.build(rows_of(1), kr.LPMT(k2=4, theta=0.3, direct=0), ids=[f"n{i}" for i in range(90)])
    assert same(loaded, chains, queries)
    for one in (loaded, chains):
        one.add(rows_of(3, 2), ["new", "newer"])
        one.remove(["n4"])
    assert same(loaded, chains, queries)
    loaded.save(saved)
    again = kr.Manifold.load(saved)
    assert same(again, chains, queries)
    again.refresh()  # measured again: wide states from now on
    assert again.snapshot.state.facts["direct"] > 0
    again.save(saved)
    assert verify(saved).whole
    assert same(kr.Manifold.load(saved), again, queries)
    assert not same(again, chains, queries)


def test_wide_states_come_with_the_second_item_and_go_with_the_last_but_one(tmp_path: Path) -> None:
    rows, folder = rows_of(1, 40), tmp_path / "m"
    manifold = kr.Manifold.build(rows[:1], kr.LPMT(k2=4))
    manifold.save(folder)
    for change in (lambda one: one.add(rows[1:]), lambda one: one.remove(range(1, 40)), lambda one: one.add(rows[1:9])):
        manifold = kr.Manifold.load(folder)
        change(manifold)
        manifold.save(folder)
        loaded = kr.Manifold.load(folder)
        assert same(loaded, manifold, rows_of(2, 5))
        assert ("wide_data" in loaded.snapshot.state.to_arrays()) == (len(loaded) > 1)


def test_pickled_arrays_are_not_read(saved: Path) -> None:
    manifest = json.loads((saved / MANIFEST).read_text())
    path = saved / manifest["data"] / "lengths.npy"
    np.save(path, np.array([{}] * 90, dtype=object), allow_pickle=True)
    manifest["arrays"]["lengths"] |= {"sha256": file_checksum(path)}
    (saved / MANIFEST).write_text(json.dumps(seal_manifest(manifest)))
    with pytest.raises(ValueError, match=r"lengths.npy is not an array"):
        kr.Manifold.load(saved)


def test_missing_folder(manifold: kr.Manifold, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="does not exist"):
        kr.Manifold.load(tmp_path / "nothing")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"no manifest.json"):
        kr.Manifold.load(tmp_path / "empty")
    (tmp_path / "file").write_text("x")
    with pytest.raises(ValueError, match=r"not a saved manifold"):
        kr.Manifold.load(tmp_path / "file")
    with pytest.raises(ValueError, match="is a file"):
        manifold.save(tmp_path / "file")
    with pytest.raises(FileNotFoundError, match="create it, or choose another path"):
        manifold.save(tmp_path / "no" / "such")
    manifold.save(tmp_path / "empty")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(ValueError, match=r"contains other files \(thesis.txt\)"):
        manifold.save(tmp_path / "mine")


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES])
@pytest.mark.parametrize("after", [0, 3])
def test_a_full_disk_or_a_read_only_folder_leaves_the_old_state(
    manifold: kr.Manifold, saved: Path, monkeypatch: pytest.MonkeyPatch, code: int, after: int
) -> None:
    calls = 0
    write = saved_folder.write_array

    def failing(path: Path, array: NDArray[Any]) -> dict[str, Any]:
        nonlocal calls
        calls += 1
        if calls > after:
            raise OSError(code, os.strerror(code), str(path))
        return write(path, array)

    monkeypatch.setattr(saved_folder, "write_array", failing)
    with pytest.raises(OSError, match=r"could not be written .* saved there before is unchanged") as caught:
        kr.Manifold.build(rows_of(6)).save(saved)
    assert caught.value.errno == code
    assert same(kr.Manifold.load(saved), manifold, rows_of(2, 5))
    assert parts_of(saved) == ["data", "manifest.json"]  # nothing is left of the attempt


def test_another_store_is_refused(saved: Path, manifold: kr.Manifold) -> None:
    with pytest.raises(ValueError, match="store has 5 items, but the manifold has 90"):
        kr.Manifold.load(saved, store=kr.stores.ArrayStore(rows_of(1)[:5]))
    queries = rows_of(2, 5)
    loaded = kr.Manifold.load(saved, store=kr.stores.ArrayStore(rows_of(1))).search(queries)
    np.testing.assert_array_equal(loaded.indices, manifold.search(queries).indices)


WRITERS = """
import os, sys
from kinrank.manifold import Manifold
one, two, target = map(str, sys.argv[1:])
both = [Manifold.load(one, mmap=False), Manifold.load(two, mmap=False)]
for _ in sys.stdin:
    writer = os.fork()
    if writer:
        print(writer, flush=True)
        print(os.WTERMSIG(os.waitpid(writer, 0)[1]), flush=True)
        continue
    while True:
        for manifold in both:
            Manifold(manifold.snapshot).save(target)  # as a manifold from elsewhere
"""


def test_killed_at_random_moments(manifold: kr.Manifold, saved: Path, tmp_path: Path) -> None:
    """A process saves two manifolds in turn and is killed without warning: one of the two is complete.

    A parent process forks one writer after another, so that not every writer has to import kinrank first.
    """
    other = kr.Manifold.build(rows_of(7))
    other.save(tmp_path / "two")
    target = tmp_path / "target"
    moments = random.Random(11)
    queries = rows_of(2, 4)
    seen = {"old": 0, "new": 0}
    started = time.perf_counter()
    manifold.save(target)
    pace = time.perf_counter() - started
    command = [sys.executable, "-c", WRITERS, str(saved), str(tmp_path / "two"), str(target)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        for kill in range(20 * KILLS):
            if kill >= KILLS and all(seen.values()):
                break
            if kill % 5 == 4 and not all(seen.values()):
                pace *= 1.5  # a busy machine: writers are slower than this process was
            print("next", file=parent.stdin, flush=True)
            writer = int(parent.stdout.readline())
            time.sleep(moments.random() * 4 * pace)  # in the first to the fourth save
            os.kill(writer, signal.SIGKILL)
            assert int(parent.stdout.readline()) == signal.SIGKILL
            loaded = kr.Manifold.load(target)
            if same(loaded, manifold, queries):
                seen["old"] += 1
            else:
                assert same(loaded, other, queries)
                seen["new"] += 1
        parent.stdin.close()
    assert min(seen.values()) > 0
    kr.Manifold(manifold.snapshot).save(target)
    assert parts_of(target) == ["data", "manifest.json"]  # the files of killed processes are gone
    shutil.rmtree(target)


def test_the_second_of_two_concurrent_saves_is_refused(saved: Path) -> None:
    """The second save is refused; the result of the first one remains."""
    first, second = kr.Manifold.load(saved), kr.Manifold.load(saved)
    first.add(rows_of(8, 1), ["first"])
    second.add(rows_of(9, 1), ["second"])
    first.save(saved)
    with pytest.raises(ConcurrentSaveError, match=r"another process saved to .* load it again and repeat your change"):
        second.save(saved)
    assert isinstance(ConcurrentSaveError(), ValueError)
    assert kr.Manifold.load(saved).ids.tolist()[90:] == ["first"]
    second.save(saved.parent / "elsewhere")  # as the message says
    assert kr.Manifold.load(saved.parent / "elsewhere").ids.tolist()[90:] == ["second"]
    with pytest.raises(ConcurrentSaveError):  # it has not forgotten
        second.save(saved)
    first.add(rows_of(9, 1), ["third"])
    first.save(saved)  # no other process saved in between
    assert kr.Manifold.load(saved).ids.tolist()[90:] == ["first", "third"]


SECOND = """
import sys
import numpy as np
import kinrank as kr
folder = sys.argv[1]
manifold = kr.Manifold.load(folder)
print("loaded", flush=True)
sys.stdin.readline()
manifold.remove(["n1"])
try:
    manifold.save(folder)
except kr.manifold.ConcurrentSaveError as error:
    print("told", flush=True)
"""


def test_two_processes_that_load_and_save(saved: Path) -> None:
    command = [sys.executable, "-c", SECOND, str(saved)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == "loaded\n"
        mine = kr.Manifold.load(saved)
        mine.remove(["n0"])
        mine.save(saved)
        print("go", file=other.stdin, flush=True)
        assert other.stdout.readline() == "told\n"
    assert kr.Manifold.load(saved).ids.tolist() == [f"n{i}" for i in range(1, 90)]


def test_a_rebuilt_folder_is_noticed(saved: Path, manifold: kr.Manifold) -> None:
    """Its generation is the same again, but it is another folder."""
    mine = kr.Manifold.load(saved)
    shutil.rmtree(saved)
    kr.Manifold(manifold.snapshot).save(saved)
    assert json.loads((saved / MANIFEST).read_text())["generation"] == 1
    with pytest.raises(ConcurrentSaveError):
        mine.save(saved)
    kr.Manifold.build(rows_of(5)).save(saved)  # a manifold from elsewhere replaces it
    assert json.loads((saved / MANIFEST).read_text())["generation"] == 2
    shutil.rmtree(saved)
    mine.save(saved)  # no change is undone
    assert len(kr.Manifold.load(saved)) == 90


def test_changing_keeps_others_waiting(saved: Path) -> None:
    with kr.Manifold.changing(saved) as one:
        one.add(rows_of(8, 1), ["one"])
        with pytest.raises(TimeoutError, match=r"is being changed by process \d+ on .* try again later"):
            kr.Manifold.build(rows_of(5)).save(saved, wait=0.05)
        with (
            pytest.raises(TimeoutError, match="is being changed"),
            kr.Manifold.changing(saved, wait=0),
        ):
            pytest.fail("two at once")
        one.save(saved)  # the lock holder can save repeatedly
        one.save(saved.parent / "copy")
        one.add(rows_of(9, 1), ["two"])
    assert kr.Manifold.load(saved).ids.tolist()[90:] == ["one", "two"]
    assert kr.Manifold.load(saved.parent / "copy").ids.tolist()[90:] == ["one"]
    for wait in (-1, float("nan"), "long"):
        with pytest.raises(ValueError, match=r"wait=.* is not allowed; give a number of seconds >= 0"):
            one.save(saved, wait=wait)  # type: ignore[arg-type]


def test_changing_saves_nothing_after_an_error(saved: Path) -> None:
    before = (saved / MANIFEST).read_bytes()
    with pytest.raises(ValueError, match="which exists already"), kr.Manifold.changing(saved) as manifold:
        assert manifold.add(rows_of(8, 1), ["one"]) is manifold.add(rows_of(8, 1), ["n1"])
    with kr.Manifold.changing(saved):
        pass  # no change, no write
    assert (saved / MANIFEST).read_bytes() == before


def test_changing_needs_a_manifold_and_leaves_no_files(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine").mkdir()
    for name, kind in (("mine", ValueError), ("nowhere", FileNotFoundError)):
        with pytest.raises(kind), kr.Manifold.changing(tmp_path / name):
            pytest.fail("there is none")
    assert list((tmp_path / "mine").iterdir()) == []
    assert not (tmp_path / "nowhere").exists()

    tried = threading.Event()

    def delete() -> None:
        assert tried.wait(PATIENCE)
        shutil.rmtree(saved)

    def try_lock(number: int) -> bool:
        tried.set()
        return False  # another owner has it

    with folder_lock(saved):
        monkeypatch.setattr(atomic, "try_lock", try_lock)
        deleting = threading.Thread(target=delete)
        deleting.start()
        with (
            pytest.raises(FileNotFoundError, match=r"another process deleted .*; nothing was written"),
            kr.Manifold.changing(saved),
        ):
            pytest.fail("it was deleted while we waited")
        deleting.join()
    assert not saved.exists()


def test_leftovers_of_killed_processes_go_with_the_next_change(saved: Path) -> None:
    (saved / f"change-{'0' * 32}").write_bytes(b"left")
    (saved / f"data-{'0' * 32}").mkdir()
    (saved / f".{MANIFEST}.x.part").write_bytes(b"left")
    with kr.Manifold.changing(saved) as manifold:
        manifold.add(rows_of(8, 1), ["one"])
    assert parts_of(saved) == ["change", "data", "manifest.json"]
    assert len(kr.Manifold.load(saved)) == 91


def test_four_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    """For two seconds; `make test-faults` runs longer, with readers, and by the command line."""
    target = tmp_path / "target"
    names = a_gallery(target, kr.methods.AQE(k=3))
    expected = at_once(target, ["in_turn"] * 4, 2.0)
    assert all(expected)
    assert set(kr.Manifold.load(target).ids.tolist()) == names | left_by_lines(expected)
    assert verify(target).whole


def test_killed_while_appending(tmp_path: Path) -> None:
    """Ten times; `make test-faults` does it more often, and by the command line."""
    target = tmp_path / "target"
    a_gallery(target, kr.methods.AQE(k=3))
    assert killed(target, "in_turn", 10, seed=12).total() == 10


LIMITED = """
import resource, sys
import numpy as np
import kinrank as kr
manifold = kr.Manifold.build(np.random.default_rng(1).normal(size=(2000, 16)), kr.methods.AQE(k=3))
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
try:
    manifold.save(sys.argv[1])
except OSError as error:
    print(error)
"""


def test_a_full_disk_leaves_no_new_folder(tmp_path: Path) -> None:
    """With a real limit of the system, also where numpy would only report how many items it wrote."""
    pytest.importorskip("resource")
    command = [sys.executable, "-c", LIMITED, str(tmp_path / "full")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"could not be written to {tmp_path / 'full'} (File too large)" in done.stdout, done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_stops_a_change_and_nothing_is_lost(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(number: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    loaded = kr.Manifold.load(saved)
    loaded.add(rows_of(8, 1), ["one"])
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match=rf"written to {saved} \(No space left on device\); the state saved there"):
            loaded.save(saved)
    assert parts_of(saved) == ["data", "manifest.json"]
    assert len(kr.Manifold.load(saved)) == 90
    loaded.save(saved)  # there is room again
    assert kr.Manifold.load(saved).ids.tolist()[90:] == ["one"]
