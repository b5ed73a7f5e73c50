"""Writer: acknowledged changes are on disk, refused ones have no effect; none is lost or made twice."""

from __future__ import annotations

import contextlib
import errno
import shutil
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinrank as kr
from engines.fake_engine import MemoryStore
from kinrank.errors import InputError, LogAppliedWarning, UnappliedChangesWarning
from kinrank.manifold import saved_folder
from kinrank.manifold.saved_folder import last_logged_version, log_path, log_position, read_manifest
from kinrank.manifold.service_log import ChangeLog
from kinrank.manifold.verify import verify
from kinrank.web.writes import gallery_writer
from kinrank.web.writes.checkpointer import Checkpointer
from kinrank.web.writes.gallery_writer import FolderInUseError, OutcomeUnknownError, Receipt, UnavailableError, Writer
from reference.waiting import PATIENCE, soon

pytestmark = pytest.mark.slow

SMALL = kr.LPMT(k1=8, k2=3, k=3, path_k=3, support=8)


def rows_of(count: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=(count, 5)).astype(np.float32)


def holds(manifold: kr.Manifold, names: list[str], rows: Any) -> bool:
    """Return True if these items have these vectors."""
    places = [manifold.ids.tolist().index(name) for name in names]
    return np.allclose(manifold.snapshot.vectors[places], rows / np.linalg.norm(rows, axis=1, keepdims=True), atol=1e-6)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Gallery of 60 items with ids."""
    kr.Manifold.build(rows_of(60), kr.methods.AQE(k=3), ids=[f"n{number}" for number in range(60)]).save(tmp_path / "g")
    return tmp_path / "g"


@pytest.fixture
def numbered(tmp_path: Path) -> Path:
    kr.Manifold.build(rows_of(60), SMALL).save(tmp_path / "g")
    return tmp_path / "g"


def left_behind(service: Writer, name: str = "left") -> Path:
    """Copy what a kill would leave on disk now: the folder without its lock, and the log."""
    folder, target = service.folder, service.folder.with_name(name)
    with service._commits.exclusive(), service.manifold._changing:
        shutil.copytree(folder, target, ignore=shutil.ignore_patterns(".lock"))
        shutil.copy(log_path(folder), log_path(target))
    return target


class Held:
    """Block the application of changes until the event is set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.go, self.batches = threading.Event(), list[int]()
        apply = Checkpointer.apply

        def held(applied: Checkpointer, changes: list[Any]) -> None:
            if changes:
                self.go.wait(PATIENCE)
                self.batches.append(len(changes))
            apply(applied, changes)

        monkeypatch.setattr(Checkpointer, "apply", held)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    holding = Held(monkeypatch)
    yield holding
    holding.go.set()


def test_changes_are_acknowledged_applied_and_saved(folder: Path) -> None:
    with Writer(folder) as service:
        assert (service.version, service.logged, service.trouble) == (0, 0, "")
        assert service.put(rows_of(2, 1), ["a", "b"]) == Receipt(1, 2, 0, 0, 62, ["a", "b"])
        assert service.put(rows_of(2, 2), ["b", "c"], replace=True) == Receipt(2, 1, 1, 0, 63, ["b", "c"])
        assert service.remove(["n3", "a"]) == Receipt(3, 0, 0, 2, 61)
        assert service.remove("n4") == Receipt(4, 0, 0, 1, 60)
        assert service.logged == 4
        assert service.wait(4, PATIENCE)
        ids = service.manifold.ids.tolist()
        assert ids == [*(f"n{number}" for number in range(60) if number not in (3, 4)), "b", "c"]
        assert holds(service.manifold, ["b", "c"], rows_of(2, 2))
        assert not service.wait(5, 0.01)
    assert log_position(read_manifest(folder)) == 4
    assert not log_path(folder).exists()
    with Writer(folder) as again:
        assert (again.version, again.logged) == (4, 4)
        assert again.manifold.ids.tolist() == ids
        assert again.put(rows_of(0), []).version == 4  # nothing changes, so there is no new version
        assert again.remove([]) == Receipt(4, 0, 0, 0, 60)
        assert again.put(rows_of(1, 3), ["d"]).version == 5
    assert verify(folder).whole


def test_a_gallery_that_could_not_be_loaded_keeps_its_log(numbered: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug that damages the gallery stops the service, but neither the folder nor an acknowledged change is lost."""
    apply = Checkpointer.apply

    def spoil(applied: Checkpointer, changes: list[Any]) -> None:
        apply(applied, changes)
        if changes:
            applied.manifold.snapshot.state.to_arrays()["step_data"][0] = np.nan

    with monkeypatch.context() as patch:
        patch.setattr(Checkpointer, "apply", spoil)
        service = Writer(numbered)
        assert service.put(rows_of(2, 1)).ids == [60, 61]
        assert soon(lambda: bool(service.trouble))
        assert "cannot be applied" in service.trouble
        service.close()
    assert last_logged_version(numbered) == 1
    with pytest.warns(UnappliedChangesWarning):
        assert len(kr.Manifold.load(numbered)) == 60
    with Writer(numbered) as again:
        assert again.manifold.ids.tolist() == list(range(62))
    assert verify(numbered).whole


def test_items_without_names_get_the_next_numbers(numbered: Path) -> None:
    with Writer(numbered) as service:
        assert service.put(rows_of(2, 1)).ids == [60, 61]
        service.remove([60, 5])
        assert service.put(rows_of(1, 2), None, True).ids == [62]
        with pytest.raises(InputError, match=r"has item numbers.*leave it out"):
            service.put(rows_of(1, 2), [5])
        service.wait(3, PATIENCE)
        assert service.manifold.ids.tolist() == [*range(5), *range(6, 60), 61, 62]
    assert kr.Manifold.load(numbered).ids.tolist() == [*range(5), *range(6, 60), 61, 62]


def test_acknowledged_changes_survive_in_every_state(folder: Path, held: Held) -> None:
    """Copy the disk before anything is applied, and after everything is saved."""
    with Writer(folder) as service:
        service.put(rows_of(3, 1), ["a", "b", "c"])
        service.remove(["b", "n0"])
        before = left_behind(service, "before")
        held.go.set()
        service.wait(2, PATIENCE)
        _until_saved(folder, 2)
        after = left_behind(service, "after")
        assert last_logged_version(after) == 2  # the log is too short to be rewritten
        ids = service.manifold.ids.tolist()
    for copy in (before, after):
        assert log_position(read_manifest(copy)) == (0 if copy == before else 2)
        with Writer(copy) as again:
            assert (again.version, again.logged) == (2, 2)
            assert again.manifold.ids.tolist() == ids
            assert log_position(read_manifest(copy)) == 2  # visible to workers that start now


def _until_saved(folder: Path, version: int) -> None:
    assert soon(lambda: log_position(read_manifest(folder)) >= version), "it was not saved"


def test_numbers_are_given_once_however_often_it_is_killed(numbered: Path, tmp_path: Path) -> None:
    for turn in range(3):
        with Writer(numbered, max_obsolete_bytes=10**9) as service:
            assert service.put(rows_of(2, turn)).ids == [60 + 2 * turn, 61 + 2 * turn]
            service.wait(turn + 1, PATIENCE)
            _until_saved(numbered, turn + 1)
            numbered = left_behind(service, f"turn{turn}")
    with Writer(numbered) as service:
        assert service.manifold.ids.tolist() == list(range(66))


def test_many_threads_share_a_flush(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks, append = list[int](), ChangeLog.append

    def slow(log: ChangeLog, changes: Any) -> None:
        threading.Event().wait(0.03)
        append(log, changes)
        blocks.append(len(changes))

    monkeypatch.setattr(ChangeLog, "append", slow)
    with Writer(folder) as service, ThreadPoolExecutor(8) as threads:
        receipts = list(threads.map(lambda number: service.put(rows_of(1, number), [number_name(number)]), range(80)))
        assert sorted(receipt.version for receipt in receipts) == list(range(1, 81))
        assert sorted(receipt.items for receipt in receipts) == list(range(61, 141))
        assert sum(blocks) == 80
        assert len(blocks) < 60
        service.wait(80, PATIENCE)
        assert len(service.manifold) == 140


def number_name(number: int) -> str:
    return f"new{number}"


def test_waiting_changes_are_applied_together(folder: Path, held: Held) -> None:
    with Writer(folder) as service:
        for number in range(5):
            service.put(rows_of(1, number), [f"x{number}"])
            service.remove([f"x{number}"] if number < 3 else [f"n{number}"])
        assert service.version == 0
        assert len(service.manifold) == 60
        held.go.set()
        assert service.wait(10, PATIENCE)
        assert len(service.manifold) == 60
        assert len(held.batches) <= 2
        assert sum(held.batches) == 10


def test_many_items_are_applied_in_parts(folder: Path, held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first batch is visible while the others are computed; a killed process continues with these."""
    monkeypatch.setattr(gallery_writer, "MAX_BATCH_ITEMS", 4)
    with Writer(folder, max_obsolete_bytes=1) as service, ThreadPoolExecutor(9) as threads:
        list(threads.map(lambda number: service.put(rows_of(1, number), [number_name(number)]), range(9)))
        service.put(rows_of(7), [f"y{number}" for number in range(7)])
        held.go.set()
        while service.version < 4:
            service.wait(service.version + 1, PATIENCE)
        left = left_behind(service)
        assert service.wait(10, PATIENCE)
        assert max(held.batches) == 4
        assert len(service.manifold) == 76
        ids = service.manifold.ids.tolist()
    with Writer(left) as again:
        assert (again.version, again.manifold.ids.tolist()) == (10, ids)


def test_changes_that_undo_each_other_write_only_the_manifest(folder: Path, held: Held) -> None:
    before = read_manifest(folder)
    with Writer(folder) as service:
        service.put(rows_of(1), ["x"])
        service.remove(["x"])
        held.go.set()
        service.wait(2, PATIENCE)
    after = read_manifest(folder)
    if len(held.batches) == 1:
        assert (after["data"], after["changes"]) == (before["data"], before["changes"])
    assert log_position(after) == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda service: service.put(rows_of(1), ["n1"]), r"'n1' exists already"),
        (lambda service: service.put(rows_of(2), ["x", "x"]), "must be unique"),
        (lambda service: service.put(rows_of(2), ["x"]), "ids has 1 entries, but there are 2"),
        (lambda service: service.put(rows_of(1), [4]), "ids of this gallery are texts"),
        (lambda service: service.put(rows_of(1), None), "ids is missing"),
        (lambda service: service.put(rows_of(1)[:, :4], ["x"]), "5 dimensions are needed"),
        (lambda service: service.put(rows_of(1)[0], ["x"]), "must be 2-d"),
        (lambda service: service.put(np.full((1, 5), np.nan), ["x"]), "NaN"),
        (lambda service: service.put(np.full((1, 5), 1e300), ["x"]), "beyond float32"),
        (lambda service: service.put(np.zeros((1, 5)), ["x"]), "zero vector"),
        (lambda service: service.remove(["n1", "n1"]), "twice"),
        (lambda service: service.remove(["n1", "y"]), "contains 'y', which is not in this gallery"),
        (lambda service: service.remove(None), "ids=None is not allowed"),
        (lambda service: service.sync(), "does not search a vector database"),
    ],
)
def test_refused_changes_change_nothing(folder: Path, change: Any, message: str) -> None:
    with Writer(folder) as service:
        with pytest.raises(InputError, match=message):
            change(service)
        assert service.logged == 0
        assert service.put(rows_of(1), ["x"]).items == 61


def test_numbers_too_large_to_be_compared_are_refused(tmp_path: Path) -> None:
    kr.Manifold.build(rows_of(20), kr.methods.AQE(k=2), metric="euclidean").save(tmp_path / "g")
    with Writer(tmp_path / "g") as service:
        with pytest.raises(InputError, match="too large to compute distances"):
            service.put(np.full((1, 5), 1e30))
        service.put(np.zeros((1, 5)))  # here the width is known
        assert service.wait(1, PATIENCE)


def test_galleries_that_cannot_change_say_so(tmp_path: Path) -> None:
    kr.Manifold.build(rows_of(40), SMALL, changes=False).save(tmp_path / "g")
    with Writer(tmp_path / "g") as service:
        with pytest.raises(InputError, match="add items"):
            service.put(rows_of(1))
        with pytest.raises(InputError, match="remove items"):
            service.remove([1])


def test_ten_thousand_items_come_at_once(folder: Path) -> None:
    names = [f"many{number}" for number in range(10_000)]
    with Writer(folder) as service:
        seen = set[int]()
        receipt = service.put(rows_of(10_000, 5), names)
        while not service.wait(receipt.version, 0.001):
            seen.add(len(service.manifold))
        assert seen <= {60, 10_060}
        assert service.manifold.ids.tolist()[60:] == names
        assert service.remove(names).items == 60


def test_callers_may_use_their_array_again(folder: Path, held: Held) -> None:
    with Writer(folder) as service:
        mine = rows_of(1, 7)
        service.put(mine, ["x"])
        mine[:] = -mine
        held.go.set()
        service.wait(1, PATIENCE)
        assert holds(service.manifold, ["x"], rows_of(1, 7))


def full(*_: Any) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_refuses_a_change_and_takes_the_next(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Writer(folder) as service:
        with monkeypatch.context() as patched:
            patched.setattr("kinrank.manifold.service_log._write_at_offset", full)
            with pytest.raises(
                UnavailableError, match=r"the log \(No space left on device\) and was not made; try again"
            ):
                service.put(rows_of(1), ["x"])
            with pytest.raises(UnavailableError):
                service.remove(["n0"])
        assert service.logged == 0
        assert service.put(rows_of(1), ["x"]) == Receipt(1, 1, 0, 0, 61, ["x"])
        assert service.remove(["n0"]).items == 60


def test_after_a_flush_that_failed_only_a_new_start_helps(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Writer(folder) as service:
        service.put(rows_of(1), ["x"])
        with monkeypatch.context() as patched:
            patched.setattr("kinrank.manifold.service_log.os.fsync", full)
            with pytest.raises(OutcomeUnknownError, match="restart the service"):
                service.put(rows_of(1), ["y"])
        with pytest.raises(UnavailableError, match="restart the service") as refused:
            service.put(rows_of(1), ["z"])
        assert not isinstance(refused.value, OutcomeUnknownError)
        assert "restart the service" in service.trouble
        assert service.wait(1, PATIENCE)
        assert "x" in service.manifold.ids
    with Writer(folder) as service:
        assert "x" in service.manifold.ids.tolist()
        assert "z" not in service.manifold.ids.tolist()
        service.put(rows_of(1), ["z"])


def test_a_folder_that_cannot_be_saved_is_saved_later(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(gallery_writer, "SAVE_RETRY_SECONDS", 0.02)
    with Writer(folder) as service:
        with monkeypatch.context() as patched:
            patched.setattr(saved_folder, "_flush_file", full)
            service.put(rows_of(1), ["x"])
            assert service.wait(1, PATIENCE)
            while not service.trouble:
                threading.Event().wait(0.01)
            service.put(rows_of(1), ["y"])
            assert service.wait(2, PATIENCE)
            assert log_position(read_manifest(folder)) == 0
            assert service.trouble.startswith("the gallery could not be saved (No space left on device)")
        _until_saved(folder, 2)
    assert "the state saved there before is unchanged" in caplog.text
    assert kr.Manifold.load(folder).ids.tolist()[-2:] == ["x", "y"]


def test_unsaved_changes_stay_in_the_log(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(saved_folder, "_flush_file", full)
        with Writer(folder) as service:
            service.put(rows_of(1), ["x"])
    assert last_logged_version(folder) == 1
    with pytest.warns(UnappliedChangesWarning, match="lacks 1 change that a service acknowledged"):
        assert len(kr.Manifold.load(folder)) == 60
    with Writer(folder) as service:
        assert service.manifold.ids.tolist()[-1] == "x"


def test_an_unexpected_error_ends_the_changes_and_keeps_the_log(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as patched:
        service = Writer(folder)
        patched.setattr(Checkpointer, "apply", lambda *_: 1 / 0)
        receipt = service.put(rows_of(1), ["x"])
        assert not service.wait(receipt.version, PATIENCE)
        with pytest.raises(
            UnavailableError, match=r"cannot be applied any more \(ZeroDivisionError\).* the log: restart the"
        ):
            service.put(rows_of(1), ["y"])
        with pytest.raises(UnavailableError):
            service.sync()
        assert "ZeroDivisionError" in caplog.text
        assert len(service.manifold.search(rows_of(1), k=3).ids[0]) == 3  # searches still work
        service.close()
    with Writer(folder) as service:
        assert service.manifold.ids.tolist()[-1] == "x"


def test_when_changes_come_too_fast_some_must_wait(folder: Path, held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gallery_writer, "MAX_PENDING_ITEMS", 3)
    monkeypatch.setattr(gallery_writer, "MAX_BATCH_ITEMS", 2)
    with Writer(folder) as service:
        service.put(rows_of(3), ["a", "b", "c"])
        with pytest.raises(UnavailableError, match="faster than they can be applied"):
            service.put(rows_of(1), ["d"])
        with pytest.raises(UnavailableError, match="faster than they can be applied"):
            service.remove(["a"])
        held.go.set()
        service.wait(1, PATIENCE)
        while service._pending_items:
            threading.Event().wait(0.01)
        service.put(rows_of(1), ["d"])


def test_a_second_writer_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gallery_writer, "LOCK_WAIT_SECONDS", 0.1)
    with Writer(folder):
        with pytest.raises(
            FolderInUseError, match=r"g is served or changed by process \d+ on \S+; stop it, or serve a copy"
        ):
            Writer(folder)
        with pytest.raises(TimeoutError, match="is being changed by process"), kr.Manifold.changing(folder, wait=0.1):
            pass
    Writer(folder).close()


def test_an_end_is_an_end(folder: Path) -> None:
    service = Writer(folder)
    service.put(rows_of(1), ["x"])
    service.close()
    service.close()
    for change in (lambda: service.put(rows_of(1), ["y"]), lambda: service.remove(["x"]), service.sync):
        with pytest.raises(UnavailableError, match="shutting down"):
            change()
    assert service.manifold.ids.tolist()[-1] == "x"
    assert len(kr.Manifold.load(folder)) == 61


def test_a_log_that_cannot_be_opened_releases_the_lock(folder: Path) -> None:
    log_path(folder).write_bytes(b"something else")
    for _ in range(2):
        with pytest.raises(ValueError, match="not a log that kinrank wrote"):
            Writer(folder)
    log_path(folder).unlink()
    Writer(folder).close()


def test_the_log_of_another_gallery_is_refused_and_kept(folder: Path, tmp_path: Path, held: Held) -> None:
    kr.Manifold.build(rows_of(20)[:, :3], kr.methods.AQE(k=2), ids=[f"o{number}" for number in range(20)]).save(
        tmp_path / "o"
    )
    with Writer(folder) as service:
        service.put(rows_of(1), ["x"])
        shutil.copy(log_path(folder), log_path(tmp_path / "o"))
        held.go.set()
    with pytest.raises(ValueError, match=r"cannot be applied to .*3 columns.* another gallery; move it away"):
        Writer(tmp_path / "o")
    assert last_logged_version(tmp_path / "o") == 1


def test_a_change_after_a_kill_comes_after_the_log(folder: Path, held: Held) -> None:
    """After a kill, `kinrank add` and `kinrank remove` run before the service starts again."""
    with Writer(folder) as service:
        service.put(rows_of(2, 1), ["a", "b"])
        service.remove(["n1", "n2"])
        left = left_behind(service)
        held.go.set()
    with contextlib.ExitStack() as stack:
        with pytest.warns(LogAppliedWarning, match=r"2 changes in .*, acknowledged by a service"):
            manifold = stack.enter_context(kr.Manifold.changing(left))
        manifold.upsert(rows_of(2, 9), ["a", "n1"])
        manifold.remove(["n3"])
    assert not log_path(left).exists()
    with Writer(left) as service:
        ids = set(service.manifold.ids.tolist())
        assert ids == {f"n{number}" for number in range(60)} - {"n2", "n3"} | {"a", "b"}
        assert holds(service.manifold, ["a", "n1"], rows_of(2, 9))
        assert holds(service.manifold, ["b"], rows_of(2, 1)[1:])
        assert service.version == 2
        assert service.remove(["a"]).version == 3


def test_loading_warns_of_unapplied_changes(folder: Path, held: Held) -> None:
    with Writer(folder) as service:
        service.put(rows_of(1), ["x"])
        left = left_behind(service)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            kr.Manifold.load(folder)  # a running service will apply it in a moment
        held.go.set()
    with pytest.warns(UnappliedChangesWarning, match=r"left lacks 1 change .*left.log; apply them with `kinrank"):
        kr.Manifold.load(left)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Writer(left).close()
        kr.Manifold.load(left)


def test_a_rebuilt_gallery_has_no_old_changes(folder: Path, held: Held) -> None:
    with Writer(folder) as service:
        service.put(rows_of(1), ["x"])
        left = left_behind(service)
        held.go.set()
    kr.Manifold.build(rows_of(30), kr.methods.AQE(k=2)).save(left)
    with Writer(left) as service:
        assert (len(service.manifold), service.version) == (30, 1)
        assert service.put(rows_of(1)).version == 2


def test_a_vector_database_is_followed(tmp_path: Path) -> None:
    names = [f"n{number}" for number in range(60)]
    store = MemoryStore(rows_of(60), list(names), [{}] * 60, "cosine")
    kr.Manifold.build(store, kr.methods.AQE(k=3)).save(tmp_path / "g")
    with Writer(tmp_path / "g", store) as service:
        with pytest.raises(InputError, match="change them there, then call sync"):
            service.put(rows_of(1), ["x"])
        with pytest.raises(InputError, match="change them there, then call sync"):
            service.remove(["n1"])
        assert service.sync() == Receipt(0, 0, 0, 0, 60)
        store.held["x"], store.held["n1"] = rows_of(2, 5)
        del store.held["n2"]
        assert service.sync() == Receipt(1, 1, 1, 1, 60)
        assert (service.version, service.logged) == (1, 1)
        assert log_position(read_manifest(tmp_path / "g")) == 1
        store.errors.append(InputError("no such table"))
        with pytest.raises(InputError, match="could not be followed: no such table"):
            service.sync()
        store.errors.append(ValueError("a bug"))
        with pytest.raises(RuntimeError, match="could not be followed") as failure:
            service.sync()
        assert isinstance(failure.value.__cause__, ValueError)
        store.errors += [ConnectionError("gone")] * 20
        with pytest.raises((UnavailableError, InputError), match="could not be followed: "):
            service.sync()
        store.errors.clear()
        assert service.sync().version == 1
    with Writer(tmp_path / "g", store) as service:
        assert service.version == 1


def test_an_interrupted_commit_is_not_passed_over(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C between the log and the queue: no other change may follow until the logged one is applied."""
    service = Writer(folder)
    with monkeypatch.context() as patched:
        patched.setattr(service._commits, "_take", lambda _: (_ for _ in ()).throw(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            service.put(rows_of(1), ["x"])
    with pytest.raises(UnavailableError, match=r"interrupted \(KeyboardInterrupt\); restart it"):
        service.put(rows_of(1), ["y"])
    service.close()
    with Writer(folder) as service:
        assert service.manifold.ids.tolist()[-1] == "x"


def test_an_error_of_ours_while_writing_is_answered(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Writer(folder) as service:
        with monkeypatch.context() as patched:
            patched.setattr(gallery_writer, "Change", lambda *_, **__: 1 / 0)
            with pytest.raises(RuntimeError, match="failed and was not made") as failure:
                service.put(rows_of(1), ["x"])
            assert isinstance(failure.value.__cause__, ZeroDivisionError)
        assert service.put(rows_of(1), ["x"]).version == 1


def test_a_failed_sync_does_not_block_its_caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unexpected error ends the background thread, and waiting callers get an error."""
    store = MemoryStore(rows_of(60), [f"n{number}" for number in range(60)], [{}] * 60, "cosine")
    kr.Manifold.build(store, kr.methods.AQE(k=3)).save(tmp_path / "g")
    service = Writer(tmp_path / "g", store)
    monkeypatch.setattr(service._checkpointer, "save", lambda _: (_ for _ in ()).throw(MemoryError("none left")))
    store.held["x"] = rows_of(1, 5)[0]
    with pytest.raises(OutcomeUnknownError, match=r"\(MemoryError\); check it"):
        service.sync()
    service.close()
