"""Replicas: they see what the writer saved, bit for bit, and their changes reach it, even if processes end or fail."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import stat
import struct
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest

import kinrank as kr
from engines.fake_engine import MemoryStore
from kinrank.errors import InputError
from kinrank.manifold import deltas, folder_reader
from kinrank.manifold.deltas import RecordReader, pack_record
from kinrank.web.writes import writer_socket
from kinrank.web.writes.gallery_writer import OutcomeUnknownError, Receipt, UnavailableError, Writer
from kinrank.web.writes.replica import Replica
from kinrank.web.writes.writer_socket import WriterSocket, receive_message, send_message
from reference.waiting import PATIENCE, soon

pytestmark = pytest.mark.slow

SMALL = kr.LPMT(k1=8, k2=3, k=3, path_k=3, support=8)


def rows_of(count: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=(count, 5)).astype(np.float32)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    kr.Manifold.build(rows_of(80), SMALL, ids=[f"n{number}" for number in range(80)]).save(tmp_path / "g")
    return tmp_path / "g"


@contextlib.contextmanager
def served(folder: Path, workers: int = 1) -> Iterator[tuple[Writer, list[Replica]]]:
    """Open a writer and replicas that follow it."""
    path = str(folder.with_name("socket"))
    with contextlib.ExitStack() as stack:
        writer = stack.enter_context(Writer(folder))
        stack.callback(WriterSocket(writer, path).close)
        yield writer, [stack.enter_context(Replica(folder, None, path)) for _ in range(workers)]


def assert_same(left: kr.Manifold, right: kr.Manifold) -> None:
    """Compare the stored state and the search results bit for bit."""
    mine, theirs = left.snapshot, right.snapshot
    assert set(mine.arrays) == set(theirs.arrays)
    for name, array in mine.arrays.items():
        assert array.dtype == theirs.arrays[name].dtype, name
        assert array.tobytes() == theirs.arrays[name].tobytes(), name
    assert mine.facts == theirs.facts
    a, b = left.search(rows_of(9, 20), k=7), right.search(rows_of(9, 20), k=7)
    assert a.ids.tolist() == b.ids.tolist()
    np.testing.assert_array_equal(a.distances, b.distances)


def test_a_change_in_one_worker_reaches_all(folder: Path) -> None:
    with served(folder, 2) as (writer, (one, other)):
        assert one.put(rows_of(2, 1), ["a", "b"]) == Receipt(1, 2, 0, 0, 82, ["a", "b"])
        assert other.remove(["a", "n0"]) == Receipt(2, 0, 0, 2, 80)
        assert one.put(rows_of(1, 2), ["b"], replace=True) == Receipt(3, 0, 1, 0, 80, ["b"])
        assert one.logged == other.logged == writer.logged == 3
        for worker in (one, other):
            assert worker.wait(3, PATIENCE)
            assert worker.version == 3
            assert_same(worker.manifold, writer.manifold)
        assert not one.wait(4, 0.01)


def test_many_writers_lose_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two replicas with three threads each add and remove while others search; the folder is rewritten often."""
    monkeypatch.setattr(deltas, "MAX_CHANGES", 2)
    with served(folder, 2) as (writer, workers):
        ended, failed = threading.Event(), list[Exception]()

        def look(worker: Replica) -> None:
            while not ended.is_set():
                try:
                    found = worker.manifold.search(rows_of(2, 3), k=5)
                    assert (found.indices >= 0).all()
                except Exception as error:
                    failed.append(error)

        def change(who: int) -> int:
            worker, kept = workers[who % 2], 0
            for number in range(12):
                names = [f"w{who}-{number}-{part}" for part in range(3)]
                receipt = worker.put(rows_of(3, 100 * who + number), names)
                assert receipt.ids == names
                worker.remove(names[:1])
                kept += 2
                if number % 4 == 0:
                    assert worker.wait(receipt.version, 20)
                    assert names[1] in worker.manifold.ids.tolist()
            return kept

        readers = [threading.Thread(target=look, args=[worker]) for worker in workers]
        for reader in readers:
            reader.start()
        with ThreadPoolExecutor(6) as threads:
            kept = sum(threads.map(change, range(6)))
        ended.set()
        for reader in readers:
            reader.join()
        assert not failed
        assert writer.logged == 6 * 12 * 2
        for worker in workers:
            assert worker.wait(writer.logged, 20)
            assert len(worker.manifold) == 80 + kept
            assert_same(worker.manifold, writer.manifold)
    assert_same(kr.Manifold.load(folder), writer.manifold)


def test_only_new_changes_are_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read_array, read_change, read = folder_reader.read_saved_array, folder_reader.read_change_file, list[str]()

    def noted(real: Any, kind: str) -> Any:
        def call(*given: Any, **named: Any) -> Any:
            if threading.current_thread().name == "kinrank-replica":
                read.append(kind)
            return real(*given, **named)

        return call

    monkeypatch.setattr(folder_reader, "read_saved_array", noted(read_array, "array"))
    monkeypatch.setattr(folder_reader, "read_change_file", noted(read_change, "change"))
    with served(folder) as (writer, (worker,)):
        for number in range(4):
            assert worker.wait(worker.put(rows_of(1, number), [f"x{number}"]).version, PATIENCE)
            assert_same(worker.manifold, writer.manifold)
        assert read == ["change"] * 4


def test_searches_under_way_keep_their_state(folder: Path) -> None:
    with served(folder) as (_, (worker,)):
        before = worker.manifold.snapshot
        worker.wait(worker.remove([f"n{number}" for number in range(40)]).version, PATIENCE)
        assert len(before) == 80
        assert len(worker.manifold) == 40


def test_changes_that_cancel_each_other(folder: Path) -> None:
    with Writer(folder) as writer, Replica(folder) as worker:
        before = worker.manifold.snapshot
        with writer._state:  # both are applied at once
            first = threading.Thread(target=writer.put, args=[rows_of(1), ["x"]])
            first.start()
            while writer.logged < 1:
                time.sleep(0.001)
        writer.wait(writer.remove(["x"]).version, PATIENCE)
        first.join()
        assert worker.wait(2, PATIENCE)
        assert len(worker.manifold) == len(before)


def test_changes_refused_by_the_writer_are_refused_by_the_replica(folder: Path) -> None:
    with served(folder) as (writer, (worker,)):
        for change, message in (
            (lambda: worker.put(rows_of(1), ["n1"]), "'n1' exists already"),
            (lambda: worker.put(rows_of(1), None), "ids is missing"),
            (lambda: worker.put(rows_of(1)[0], ["x"]), "must be 2-d"),
            (lambda: worker.put([[float("nan")] * 5], ["x"]), "NaN"),
            (lambda: worker.put(rows_of(1), [1.5]), "1.5, a float"),
            (lambda: worker.put(rows_of(1), [None]), "None, a NoneType"),
            (lambda: worker.put(rows_of(1), [object()]), "a list of texts or of whole numbers"),
            (lambda: worker.remove(["x"]), "'x', which is not in this gallery"),
            (lambda: worker.remove(None), "not allowed"),
            (worker.sync, "does not search a vector database"),
        ):
            with pytest.raises(InputError, match=message):
                change()
        assert writer.logged == 0
        assert worker.put(rows_of(2), np.array(["x", "y"], object)).added == 2
        assert worker.put(rows_of(1), (UUID(int=3),)).ids == [str(UUID(int=3))]
        assert worker.remove("x").removed == 1


def test_a_service_that_only_reads_says_so(folder: Path) -> None:
    with Replica(folder) as worker:
        assert (worker.version, worker.logged) == (0, 0)
        with pytest.raises(InputError, match="read-only"):
            worker.put(rows_of(1), ["x"])


def test_a_writer_that_is_gone_and_comes_back(folder: Path) -> None:
    path = str(folder.with_name("socket"))
    with Replica(folder, None, path) as worker:
        with pytest.raises(UnavailableError, match="the writer is not running"):
            worker.put(rows_of(1), ["x"])
        for turn in range(3):
            with Writer(folder) as writer:
                listening = WriterSocket(writer, path)
                assert worker.put(rows_of(1), [f"x{turn}"]).version == 2 * turn + 1
                assert worker.remove([f"x{turn}"]).version == 2 * turn + 2
                listening.close()
            with pytest.raises(UnavailableError, match="the writer"):
                worker.remove(["n0"])
        assert worker.wait(6, PATIENCE)
    with pytest.raises(UnavailableError, match="shutting down"):
        worker.remove(["n0"])


def test_a_writer_that_ends_without_an_answer(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(folder) as (writer, (worker,)):
        monkeypatch.setattr(writer_socket.WriterSocket, "_answer", lambda *_: int("no number"))
        with pytest.raises(OutcomeUnknownError, match="may or may not have been made: check, then try again"):
            worker.put(rows_of(1), ["x"])
        monkeypatch.undo()
        monkeypatch.setattr(writer, "put", lambda *_: 1 / 0)
        with pytest.raises(RuntimeError, match=r"its log has the traceback with error id [0-9a-f]{8}"):
            worker.put(rows_of(1), ["x"])
        given_up = threading.Event()
        monkeypatch.setattr(writer, "put", lambda *_: given_up.wait(PATIENCE))
        monkeypatch.setattr(writer_socket, "ACKNOWLEDGE_SECONDS", 0.05)
        with pytest.raises(OutcomeUnknownError, match="did not answer"):
            worker.put(rows_of(1), ["x"])
        given_up.set()


def test_only_this_user_can_open_the_socket(folder: Path) -> None:
    path = folder.with_name("socket")
    before = os.umask(0)
    try:
        with served(folder):
            assert stat.S_ISSOCK(path.stat().st_mode)
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
    finally:
        os.umask(before)
    assert not path.exists()
    with Writer(folder) as writer, pytest.raises(ValueError, match="longer than 100 bytes"):
        WriterSocket(writer, f"/tmp/{'x' * 200}")


def connected(folder: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(PATIENCE)
    connection.connect(str(folder.with_name("socket")))
    return connection


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"x",
        struct.pack("<I", 2**32 - 1),
        struct.pack("<I", 2),
        struct.pack("<I", 3) + b"[1]",
        struct.pack("<I", 4) + b"[1]\n",
        struct.pack("<I", 4) + b"{x}\n",
        struct.pack("<I", 10**5 + 1) + b"[" * 10**5 + b"\n",
        struct.pack("<I", 4) + b"\xff\xfe\xfd\n",
    ],
)
def test_bytes_that_are_not_a_message_end_only_their_connection(folder: Path, sent: bytes) -> None:
    with served(folder) as (_, (worker,)):
        with connected(folder) as connection:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(100) == b""
        assert worker.put(rows_of(1), ["x"]).version == 1


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"what": "close"},
        {"what": ["put"]},
        {"what": "put"},
        {"what": "put", "ids": None, "replace": False, "shape": [1, 5]},
        {"what": "put", "ids": ["x"], "replace": False, "shape": [-1, 5]},
        {"what": "put", "ids": ["x"], "replace": False, "shape": "ab"},
        {"what": "put", "ids": ["x"], "replace": False, "shape": [10**30, 10**30]},
        {"what": "put", "ids": {"x": 1}, "replace": False, "shape": [1]},
        {"what": "remove", "ids": {"x": 1}},
        {"what": "remove", "ids": [[]]},
        {"what": "remove"},
    ],
    ids=json.dumps,
)
def test_invalid_messages_are_refused(folder: Path, message: dict[str, Any]) -> None:
    with served(folder) as (writer, _), connected(folder) as connection:
        send_message(connection, pack_record(message) + b"1234")
        answer = receive_message(connection)
        assert answer is not None
        assert "refused" in RecordReader(answer).read_fields()
        assert writer.logged == 0


def test_changes_that_are_too_large_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(folder) as (writer, (worker,)):
        monkeypatch.setattr(writer_socket, "MAX_MESSAGE_BYTES", 1000)
        with pytest.raises(InputError, match="must not exceed 1000 bytes; split it into several changes"):
            worker.put(rows_of(100), [f"x{number}" for number in range(100)])
        assert worker.put(rows_of(2), ["x", "y"]).version == 1
        assert writer.logged == 1


def test_searches_use_the_last_state_of_an_unreadable_folder(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Replica(folder) as worker:
        manifest = (folder / "manifest.json").read_bytes()
        (folder / "manifest.json").write_bytes(b"{")
        _until(lambda: worker.trouble != "")
        assert "cannot be followed" in caplog.text
        shutil.move(folder, folder.with_name("elsewhere"))
        assert len(worker.manifold.search(rows_of(1), k=4).ids[0]) == 4
        shutil.move(folder.with_name("elsewhere"), folder)
        (folder / "manifest.json").write_bytes(manifest)
        _until(lambda: worker.trouble == "")
        with Writer(folder) as writer:
            writer.put(rows_of(1), ["x"])
        assert worker.wait(1, PATIENCE)


def _until(reached: Any) -> None:
    assert soon(reached)


def test_a_vector_database_is_followed_by_all(tmp_path: Path) -> None:
    names = [f"n{number}" for number in range(60)]
    store = MemoryStore(rows_of(60), list(names), [{}] * 60, "cosine")
    kr.Manifold.build(store, kr.methods.AQE(k=3)).save(tmp_path / "g")
    path = str(tmp_path / "socket")
    with contextlib.ExitStack() as stack:
        writer = stack.enter_context(Writer(tmp_path / "g", store))
        stack.callback(WriterSocket(writer, path).close)
        worker = stack.enter_context(Replica(tmp_path / "g", store, path))
        store.held["x"] = rows_of(1, 5)[0]
        del store.held["n2"]
        assert worker.sync() == Receipt(1, 1, 0, 1, 60)
        assert worker.wait(1, PATIENCE)
        assert worker.manifold.ids.tolist() == writer.manifold.ids.tolist()
        assert worker.manifold.info()["store"] == "MemoryStore"
        with pytest.raises(InputError, match="change them there, then call sync"):
            worker.remove(["x"])


def test_following_for_long_keeps_nothing_open(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No open files of old states, of which every second change leaves about twenty, and no open connections."""
    monkeypatch.setattr(deltas, "MAX_CHANGES", 1)

    def open_files() -> int:
        return len(os.listdir("/proc/self/fd")) + Path("/proc/self/maps").read_text().count(str(folder))

    with served(folder) as (_, (worker,)):
        counts = []
        for number in range(30):
            worker.wait(worker.put(rows_of(1, number), [f"x{number}"]).version, PATIENCE)
            counts.append(open_files())
        assert max(counts[20:]) <= max(counts[:10]) + 60
