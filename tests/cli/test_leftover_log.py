"""A killed service leaves a log; whatever changes the folder next applies it first, so that the newest change wins."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest

import kinrank as kr
from kinrank.errors import ConcurrentSaveError, LogAppliedWarning, UnappliedChangesWarning
from kinrank.manifold.saved_folder import log_path
from kinrank.manifold.service_log import Change, ChangeLog
from reference.commands import bad, run
from reference.killed_service import leave_log, rows_of, vectors_in

OLD, NEW = [1.0, 0, 0, 0, 0, 0], [0.0, 1, 0, 0, 0, 0]
LEFT = [{"remove": ["g7"]}, {"put": {"g8": OLD, "came": OLD}}]  # what the killed service acknowledged
APPLIED = "2 changes in "


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A gallery of LPMT next to the log of a service that was killed."""
    place = tmp_path_factory.mktemp("killed")
    rows = np.random.default_rng(0).normal(size=(30, 6)).astype(np.float32)
    kr.Manifold.build(rows, kr.LPMT(k1=8, k2=3, k=3), ids=[f"g{number}" for number in range(30)]).save(place / "g")
    leave_log(place / "g", LEFT)
    np.save(place / "new.npy", np.array([NEW, NEW], np.float32))
    (place / "new.txt").write_text("g7\ng8\n")
    return place


@pytest.fixture
def place(killed: Path, tmp_path: Path) -> Path:
    """A copy of it for one test."""
    shutil.copytree(killed, tmp_path / "copy")
    return tmp_path / "copy"


def files_in(place: Path) -> dict[Path, bytes]:
    """Everything but the lock, in which every writer leaves its number."""
    return {path: path.read_bytes() for path in place.rglob("*") if path.is_file() and path.name != ".lock"}


@contextmanager
def changed(folder: Path) -> Iterator[kr.Manifold]:
    """`Manifold.changing` on a folder whose log holds something."""
    with ExitStack() as stack:
        with pytest.warns(LogAppliedWarning, match=r"acknowledged by a service before it was killed, w.* applied"):
            manifold = stack.enter_context(kr.Manifold.changing(folder))
        yield manifold


def test_the_newer_change_of_the_command_line_wins(place: Path) -> None:
    command = [sys.executable, "-m", "kinrank.cli", "add", str(place / "g"), "--replace"]
    command += ["--vectors", str(place / "new.npy"), "--ids", str(place / "new.txt")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"kinrank: {APPLIED}")
    assert not log_path(place / "g").exists()
    found = vectors_in(place / "g")
    assert found["g7"] == found["g8"] == NEW
    assert found["came"] == OLD
    assert len(found) == 31


@pytest.mark.parametrize(
    ("words", "gone"),
    [
        (["remove", "@g", "--item", "came"], "came"),
        (["observe", "@g", "--queries", "@new.npy"], None),
        (["observe", "@g", "--forget"], None),
        (["search", "@g", "--queries", "@new.npy", "--observe"], None),
    ],
)
def test_every_command_that_changes_the_folder_applies_the_log(place: Path, words: list[str], gone: str | None) -> None:
    done = run(place, *words)
    assert done.exit_code == 0, done.stderr
    found = vectors_in(place / "g")
    assert "g7" not in found
    assert found["g8"] == OLD
    assert len(found) == (30 if gone is None else 29)
    assert gone not in found


def test_what_the_log_removed_cannot_be_removed_again(place: Path) -> None:
    before = log_path(place / "g").read_bytes()
    done = run(place, "remove", "@g", "--item", "g7")
    assert done.exit_code == 2
    assert "g7" in done.stderr
    assert log_path(place / "g").read_bytes() == before  # nothing was saved, so the log is still needed
    assert "g7" not in vectors_in(place / "g")


def test_python_refuses_to_save_over_the_log(place: Path) -> None:
    with pytest.warns(UnappliedChangesWarning, match=r"lacks 2 changes .* apply them .*`with Manifold.changing"):
        manifold = kr.Manifold.load(place / "g")
    manifold.upsert(np.array([NEW]), ["g7"])
    before = files_in(place)
    with pytest.raises(ConcurrentSaveError, match=r"lacks 2 changes .*make your change in `with Manifold.changing"):
        manifold.save(place / "g")
    assert files_in(place) == before
    manifold.save(place / "elsewhere")
    assert vectors_in(place / "elsewhere")["g7"] == NEW


def test_a_manifold_loaded_while_the_service_ran_refuses_too(killed: Path, tmp_path: Path) -> None:
    folder = tmp_path / "g"
    shutil.copytree(killed / "g", folder)
    manifold = kr.Manifold.load(folder)
    leave_log(folder, LEFT)
    manifold.upsert(np.array([NEW]), ["g8"])
    with pytest.raises(ConcurrentSaveError, match="lacks 2 changes"):
        manifold.save(folder)


def test_python_changes_after_the_log(place: Path) -> None:
    with changed(place / "g") as manifold:
        assert "g7" not in manifold.ids.tolist()
        manifold.add(np.array([NEW]), ["g7"])
    manifold.remove(["came"])  # the same object goes on
    manifold.save(place / "g")
    found = vectors_in(place / "g")
    assert (found["g7"], found["g8"], "came" in found) == (NEW, OLD, False)


def test_an_error_in_the_block_leaves_the_log(place: Path) -> None:
    def fail() -> None:
        with changed(place / "g") as manifold:
            manifold.remove(["came"])
            raise KeyError

    before = files_in(place)
    with pytest.raises(KeyError):
        fail()
    assert files_in(place) == before


def test_nothing_but_the_log_is_saved_as_well(place: Path) -> None:
    with changed(place / "g"):
        pass
    assert not log_path(place / "g").exists()
    assert rows_of(kr.Manifold.load(place / "g"))["g8"] == OLD


def test_changes_that_cancel_each_other_are_not_replayed(killed: Path, tmp_path: Path) -> None:
    folder = tmp_path / "g"
    shutil.copytree(killed / "g", folder)
    leave_log(folder, [{"put": {"x": OLD}}, {"remove": ["x"]}])
    with changed(folder) as manifold:
        manifold.add(np.array([NEW]), ["x"])
    assert vectors_in(folder)["x"] == NEW


def test_a_second_crash_in_between(place: Path) -> None:
    """The command is killed before it saves; then it runs, the service starts, is killed again, and so on."""
    program = (
        "import sys, time, numpy, kinrank\n"
        "with kinrank.Manifold.changing(sys.argv[1]) as manifold:\n"
        "    manifold.remove(['g8']); print('changed', flush=True); time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program, place / "g"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "changed\n"
        process.kill()
    assert process.returncode == -signal.SIGKILL
    assert run(place, "add", "@g", "--vectors", "@new.npy", "--ids", "@new.txt", "--replace").exit_code == 0
    leave_log(place / "g", [{"put": {"g8": OLD}}, {"remove": ["g1"]}])
    assert run(place, "remove", "@g", "--item", "g2").exit_code == 0
    found = vectors_in(place / "g")
    assert (found["g7"], found["g8"], found["came"]) == (NEW, OLD, OLD)
    assert {"g1", "g2"} & set(found) == set()


def test_a_log_that_outlives_the_save_is_not_replayed(place: Path) -> None:
    """The command is killed after it has saved and before it removes the log."""
    content = log_path(place / "g").read_bytes()
    assert run(place, "add", "@g", "--vectors", "@new.npy", "--ids", "@new.txt", "--replace").exit_code == 0
    log_path(place / "g").write_bytes(content)
    assert run(place, "remove", "@g", "--item", "came").stderr == ""
    log_path(place / "g").write_bytes(content)
    found = vectors_in(place / "g")
    assert (found["g7"], found["g8"], "came" in found) == (NEW, NEW, False)


def damage(content: bytes, kind: str) -> bytes:
    if kind == "head":
        return bytes([content[0] ^ 1]) + content[1:]
    if kind == "foreign":
        return b"GET / HTTP/1.1 200\n" * 20
    return content[:70] + bytes([content[70] ^ 1]) + content[71:]  # in the first of two blocks


@pytest.mark.parametrize("kind", ["head", "block", "foreign"])
def test_a_damaged_log_stops_every_change(place: Path, kind: str) -> None:
    manifold = kr.Manifold.open(place / "g")
    log = log_path(place / "g")
    log.write_bytes(damage(log.read_bytes(), kind))
    before = files_in(place)
    message = bad(place, "add", "@g", "--vectors", "@new.npy", "--ids", "@new.txt", "--replace")
    assert "g.log" in message
    assert "move it away" in message
    manifold.remove(["g3"])
    with pytest.raises(ConcurrentSaveError, match=r"move it away|has unreadable bytes|lacks . changes?"):
        manifold.save(place / "g")
    after = files_in(place)
    assert after == before
    log.unlink()
    assert run(place, "remove", "@g", "--item", "g7").exit_code == 0


def test_the_log_of_another_gallery_stops_every_change(place: Path) -> None:
    log_path(place / "g").unlink()
    log = ChangeLog(log_path(place / "g"), 0)
    log.append([Change(vectors=np.ones((1, 3), np.float32), ids=["g8"], version=1)])
    log.close()
    message = bad(place, "remove", "@g", "--item", "g7")
    assert "the log belongs to another gallery; move it away" in message
    assert "g7" in rows_of(kr.Manifold.open(place / "g"))


def test_a_bug_while_applying_the_log_does_not_blame_the_log(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError("operands could not be broadcast together")

    before = files_in(place)
    monkeypatch.setattr(type(kr.Manifold.open(place / "g").method), "change", fail)
    result = run(place, "remove", "@g", "--item", "g7")
    assert result.exit_code == 1
    assert "ValueError: operands could not be broadcast together" in result.stderr
    assert "another gallery" not in result.stderr
    assert files_in(place) == before


def test_an_empty_file_of_that_name_is_no_log(place: Path) -> None:
    log_path(place / "g").write_bytes(b"")  # such as `kinrank add g ... > g.log`
    assert run(place, "remove", "@g", "--item", "g7").stderr == ""
    kr.Manifold.load(place / "g").save(place / "g")


def test_a_gallery_with_numbers(tmp_path: Path) -> None:
    rows = np.random.default_rng(1).normal(size=(10, 6)).astype(np.float32)
    kr.Manifold.build(rows, kr.methods.AQE(k=2)).save(tmp_path / "g")
    log = ChangeLog(log_path(tmp_path / "g"), 0)
    log.append([Change(vectors=np.array([OLD], np.float32), version=1, first=10), Change([3], version=2)])
    log.close()
    np.save(tmp_path / "new.npy", np.array([NEW], np.float32))
    assert run(tmp_path, "add", "@g", "--vectors", "@new.npy").exit_code == 0
    found = vectors_in(tmp_path / "g")
    assert (found[10], found[11], 3 in found) == (OLD, NEW, False)


def test_the_real_service_keeps_the_newer_change(place: Path) -> None:
    """`kinrank add`, then `kinrank serve`, as in the report."""
    pytest.importorskip("fastapi", reason="the service needs the extra [web]")
    assert run(place, "add", "@g", "--vectors", "@new.npy", "--ids", "@new.txt", "--replace", "-q").exit_code == 0
    command = [sys.executable, "-m", "kinrank.cli", "serve", str(place / "g"), "--port", "0", "-q"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            with kr.Client(process.stdout.readline().strip()) as client:
                for name in ("g7", "g8"):
                    assert np.allclose(client.get(name, vector=True)["vector"], NEW)
                assert client.info()["items"] == 31
        finally:
            process.terminate()
    assert process.returncode == 0


def test_quiet_does_not_hide_that_bytes_of_the_log_were_removed(place: Path) -> None:
    pytest.importorskip("fastapi", reason="the service needs the extra [web]")
    with log_path(place / "g").open("ab") as file:
        file.write(b"torn" * 5)
    command = [sys.executable, "-m", "kinrank.cli", "serve", str(place / "g"), "--port", "0", "-q"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("http://")
        process.terminate()
        _, message = process.communicate(timeout=60)
    assert "g.log: the last 20 bytes are not a complete change and were removed" in message
    assert message.count("\n") == 1


def test_quiet_does_not_hide_that_changes_are_missing(place: Path) -> None:
    done = run(place, "info", "@g", "--json")
    assert "lacks 2 changes" in done.stderr
    quiet = run(place, "search", "@g", "--queries", "@new.npy", "-q")
    assert quiet.exit_code == 0
    assert "lacks 2 changes" in quiet.stderr
