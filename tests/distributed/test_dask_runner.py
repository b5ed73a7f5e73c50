"""Cluster: loops on workers, and the files between them: each array is sent once and removed with the array."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import kinrank
from kinrank.manifold.snapshot import make_gallery
from kinrank.progress import SILENT
from kinrank.stages import gaussian_graph as kernels
from kinrank.stages import pipeline
from kinrank.stages.csr import Rows
from kinrank.stages.kernels.compiler import Output
from kinrank.vector_input import to_unit_rows
from kinrank_bench.synthetic import curves

pytest.importorskip("distributed", reason="needs Dask: pip install '.[dask]'")

import kinrank.distributed as spread
from kinrank.distributed import dask_runner as module
from kinrank.distributed.dask_runner import Cluster
from kinrank.distributed.worker_tasks import ArrayFile

pytestmark = pytest.mark.slow


class Done:
    """A task that is complete on submission."""

    def __init__(self, key: int, result: Any) -> None:
        self.key, self._result = key, result

    def add_done_callback(self, tell: Callable[[Any], None]) -> None:
        tell(self)

    def result(self, timeout: float) -> Any:
        return self._result

    def release(self) -> None:
        self._result = None


class Here:
    """A client whose only worker is this process; test_build_and_rerank.py uses real ones."""

    def __init__(self) -> None:
        self.calls = 0

    def nthreads(self) -> dict[str, int]:
        return {"here": 1}

    def submit(self, task: Any, *call: Any, retries: int, pure: bool) -> Done:
        self.calls += 1
        return Done(self.calls, task(*call))


class Library:
    TimeoutError = TimeoutError


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setattr(module, "_import_dask", lambda: Library)
    return Cluster(Here(), tmp_path, 7, SILENT)


def content_of(array: NDArray[Any]) -> str:
    return sha256(f"{array.dtype} {array.size} ".encode() + array.tobytes()).hexdigest()


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, int]]:
    """Return (name, checksum of dtype, size and content, number of bytes) of all arrays that are sent."""
    seen: list[tuple[str, str, int]] = []
    write = module.write_array

    def noted(folder: Path, name: str, array: NDArray[Any]) -> NDArray[Any]:
        seen.append((name, content_of(array), array.nbytes))
        return write(folder, name, array)

    monkeypatch.setattr(module, "write_array", noted)
    return seen


def blend(run: Cluster, values: NDArray[np.float32], weights: NDArray[np.float64]) -> NDArray[np.float32]:
    result = run.empty((len(values),), np.float32)
    run(kernels.blend_layers, len(values), (values, weights), (Output(result),))
    return result


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_loops_fill_what_they_are_given(run: Cluster) -> None:
    values, weights = np.arange(60, dtype=np.float32).reshape(20, 3), np.array([1.0, 10.0, 100.0])
    np.testing.assert_array_equal(blend(run, values, weights), values @ weights)
    assert run.client.calls == 3  # 7, 7 and 6 rows


def test_an_array_is_sent_once(run: Cluster, written: list[tuple[str, str, int]], tmp_path: Path) -> None:
    values, weights = np.ones((20, 3), np.float32), np.ones(3)
    first = blend(run, values, weights)
    assert len(written) == 2
    assert len(files(tmp_path)) == 3  # and the result
    second = blend(run, values, weights)
    assert len(written) == 2
    assert len(files(tmp_path)) == 4
    third = blend(run, np.stack([first, second], axis=1), weights[:2])
    assert len(written) == 4  # the two new ones; a part of an array is another array
    np.testing.assert_array_equal(third, 6.0)


def test_what_a_loop_filled_is_not_sent_again(
    run: Cluster, written: list[tuple[str, str, int]], tmp_path: Path
) -> None:
    values = blend(run, np.ones((20, 3), np.float32), np.ones(3))
    before = len(written)
    table = values.reshape(10, 2)
    np.testing.assert_array_equal(blend(run, table, np.ones(2)), 6.0)
    assert len(written) == before + 1  # the weights


def test_views_share_a_file(run: Cluster, written: list[tuple[str, str, int]]) -> None:
    flat = np.arange(60, dtype=np.float32)
    sent = [run._to_file(view) for view in (flat, flat.reshape(20, 3), flat.reshape(20, 3)[:], flat[None])]
    assert {one.name for one in sent} == {written[0][0]}
    assert [one.shape for one in sent] == [(60,), (20, 3), (20, 3), (1, 60)]
    assert len(written) == 1
    assert run._to_file(flat[:30]).name != sent[0].name


def test_views_in_another_order_or_of_another_kind_do_not(run: Cluster) -> None:
    """They have the same address and size, but hold other numbers."""
    table = np.arange(9, dtype=np.float32).reshape(3, 3)
    weights = np.array([1.0, 10.0, 100.0])
    for values in (table, table.T, table, np.asfortranarray(table), table):
        np.testing.assert_array_equal(blend(run, values, weights), values @ weights)
    numbers = np.arange(1, 4, dtype=np.float64)
    bits = numbers.view(np.int64)
    assert run._to_file(numbers).name != run._to_file(bits).name


def test_parts_of_named_tuples_are_sent(run: Cluster, written: list[tuple[str, str, int]]) -> None:
    rows = Rows(np.array([0, 1]), np.zeros(1, np.int32), np.empty(0, np.float32))
    sent = run._to_file(rows)
    assert isinstance(sent, Rows)
    assert isinstance(sent.indptr, ArrayFile)
    assert isinstance(sent.indices, ArrayFile)
    assert sent.data is rows.data  # an empty file cannot be mapped
    assert run._to_file(("words", 3)) == ("words", 3)
    assert len(written) == 2


def test_files_go_with_their_arrays(run: Cluster, tmp_path: Path) -> None:
    values, weights = np.ones((20, 3), np.float32), np.ones(3)
    result = blend(run, values, weights)
    kept = files(tmp_path)
    view = result.reshape(4, 5)
    again = blend(run, view, np.ones(5))
    assert len(files(tmp_path)) == len(kept) + 1  # the weights of this call are gone
    del values, again
    assert len(files(tmp_path)) == len(kept) - 1
    del result, view, weights
    gc.collect()
    assert not files(tmp_path)
    assert not run._files
    for _ in range(50):  # new arrays at the addresses of old ones
        values = np.random.default_rng(len(files(tmp_path))).random((20, 3)).astype(np.float32)
        weights = np.random.default_rng(1).random(3)
        np.testing.assert_allclose(blend(run, values, weights), values @ weights, rtol=1e-6)
        del values, weights
    assert not files(tmp_path)


def test_what_was_changed_here_is_seen_by_workers(run: Cluster, tmp_path: Path) -> None:
    """Arrays that loops fill are files to which this process may also write."""
    values = blend(run, np.ones((20, 3), np.float32), np.ones(3)).reshape(10, 2)
    values[:] = 5.0
    np.testing.assert_array_equal(blend(run, values, np.ones(2)), 10.0)


@pytest.mark.parametrize("count", [300, 1100])
def test_a_whole_pipeline_sends_nothing_twice_and_leaves_nothing(
    run: Cluster, written: list[tuple[str, str, int]], tmp_path: Path, count: int
) -> None:
    rows = to_unit_rows(curves(count, 8))
    run.block = 90
    made = pipeline.prepare_graph(make_gallery(rows).lists, rows, kinrank.LPMT(), run)
    local = pipeline.prepare_graph(make_gallery(rows).lists, rows, kinrank.LPMT())
    for one, other in ((made.states, local.states), (made.steps, local.steps)):
        for mine, theirs in zip(one, other, strict=True):
            assert mine.tobytes() == theirs.tobytes()
    numbers = content_of(np.arange(count))  # all rows, created on demand
    large = [content for _, content, size in written if size >= count]  # not the few weights of an iteration
    times = Counter(content for content in large if content != numbers)
    assert max(times.values()) == 1
    assert len(files(tmp_path)) <= 8  # what `made` holds, and the vectors
    del made, one, mine
    gc.collect()
    assert len(files(tmp_path)) == 1  # the vectors, which still exist
    del rows, local, other, theirs
    gc.collect()
    assert not files(tmp_path)


def test_the_folder_is_empty_after_a_mistake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(label: str, done: int, total: int) -> None:
        if label == "states":
            assert list(tmp_path.iterdir())
            raise KeyboardInterrupt

    monkeypatch.setattr(module, "_import_dask", lambda: Library)
    with pytest.raises(KeyboardInterrupt):
        spread.build(curves(300, 8), client=Here(), block=90, folder=tmp_path, progress=stop)
    assert not list(tmp_path.iterdir())
    made = spread.build(curves(300, 8), client=Here(), block=90, folder=tmp_path)
    assert not list(tmp_path.iterdir())
    assert all(type(array) is np.ndarray for array in made.snapshot.state.to_arrays().values())
