"""The log of a folder: appended changes are there, an incomplete end is cut off, damage is refused."""

from __future__ import annotations

import base64
import errno
import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinrank.files import atomic
from kinrank.manifold import service_log as module
from kinrank.manifold.saved_folder import last_logged_version, log_path
from kinrank.manifold.service_log import BLOCK_FORMAT, BLOCK_MARK, HEAD_FORMAT, Change, ChangeLog, pack_head

LOG_OF_0_1_0 = base64.b64decode(
    "a2lucmFuayBsb2cgMQoAAAAAAAAAAAAAAAECAwQFBgcICQoLDA0OD1lz19sk3G858WxvZwIAAAABAAAAAAAAAJwAAAAAAAAAGPIc"
    "l/cWqHWWpJ1t5st2Eo2Oj7BeUHDleyJraW5kIjoicHV0IiwidmVyc2lvbiI6MSwiaWRzIjpbImEiLCJiIl0sImZpcnN0IjpudWxs"
    "LCJzaGFwZSI6WzIsMl19CgAAgD8AAABAAABAQAAAgEB7ImtpbmQiOiJwdXQiLCJ2ZXJzaW9uIjoyLCJpZHMiOm51bGwsImZpcnN0"
    "Ijo3LCJzaGFwZSI6WzEsMl19CgAAoEAAAMBA8WxvZwEAAAADAAAAAAAAAEQAAAAAAAAAHqINRDz6W8p2PARFse+kgltsWAffKd8p"
    "eyJraW5kIjoicmVtb3ZlIiwidmVyc2lvbiI6MywiaWRzIjpbImEiXSwiZmlyc3QiOm51bGwsInNoYXBlIjpudWxsfQo="
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return log_path(tmp_path / "gallery")


def put(version: int, *ids: Any) -> Change:
    return Change(vectors=np.full((len(ids), 3), version, np.float32), ids=list(ids), version=version)


def versions(log: ChangeLog) -> list[int]:
    return [change.version for change in log.left]


def filled(path: Path, blocks: int, position: int = 0) -> list[int]:
    """Return a closed log with blocks of two changes each, and the end of each block."""
    log, ends = ChangeLog(path, position), []
    for _ in range(blocks):
        log.append([put(log.version + 1, "a", "b"), Change(["a"], version=log.version + 2)])
        ends.append(log.size)
    log.close()
    return ends


def test_appended_changes_are_read(path: Path) -> None:
    log = ChangeLog(path, 0)
    log.append([put(1, "a", "é\n"), Change(["a"], version=2), Change([2**64 - 1, -5], version=3)])
    log.append([Change(vectors=np.ones((2, 3), np.float32), version=4, first=7)])
    log.close()
    again = ChangeLog(path, 0)
    assert again.version == 4
    assert [(change.version, change.removed or change.ids, change.first) for change in again.left] == [
        (1, ["a", "é\n"], None),
        (2, ["a"], None),
        (3, [2**64 - 1, -5], None),
        (4, None, 7),
    ]
    assert again.left[0].vectors is not None
    assert again.left[0].vectors.tolist() == [[1, 1, 1]] * 2
    assert again.left[1].vectors is None
    again.append([put(5, "c")])
    again.close()
    assert versions(ChangeLog(path, 3)) == [4, 5]  # the folder includes the others


def test_observed_queries_keep_their_order(path: Path) -> None:
    log = ChangeLog(path, 0)
    log.append([put(1, "a"), Change(queries=np.full((2, 3), 7, np.float32), version=2), Change(["a"], version=3)])
    log.close()
    left = ChangeLog(path, 0).left
    assert [(change.version, change.kind, change.removed or change.ids, change.items) for change in left] == [
        (1, "put", ["a"], 1),
        (2, "observe", None, 2),
        (3, "remove", ["a"], 1),
    ]
    assert left[1].vectors is None
    assert left[1].queries is not None
    assert left[1].queries.tolist() == [[7, 7, 7]] * 2


def test_a_log_of_version_0_1_0_is_read(path: Path) -> None:
    """The bytes that version 0.1.0 wrote: a put with ids, one with numbers, a removal."""
    path.write_bytes(LOG_OF_0_1_0)
    left = ChangeLog(path, 0).left
    assert [(change.version, change.kind, change.removed or change.ids, change.first) for change in left] == [
        (1, "put", ["a", "b"], None),
        (2, "put", None, 7),
        (3, "remove", ["a"], None),
    ]
    assert left[0].vectors is not None
    assert left[0].vectors.tolist() == [[1, 2], [3, 4]]


def test_a_fully_applied_log_is_restarted(path: Path) -> None:
    filled(path, 3)
    for position in (6, 9):
        log = ChangeLog(path, position)
        assert (log.version, log.left, log.size, path.stat().st_size) == (
            position,
            [],
            HEAD_FORMAT.size,
            HEAD_FORMAT.size,
        )
        log.close()
    log.close()  # a second call has no effect


def test_truncation_keeps_the_blocks_before(path: Path) -> None:
    ends = filled(path, 3)
    content = path.read_bytes()
    for size in sorted({*range(HEAD_FORMAT.size, len(content), 11), *ends[:-1]}):
        path.write_bytes(content[:size])
        log = ChangeLog(path, 0)
        whole = sum(end <= size for end in ends)
        assert log.version == 2 * whole
        assert last_logged_version(path.with_suffix("")) == 2 * whole
        assert path.stat().st_size == ([HEAD_FORMAT.size, *ends][whole])
        log.append([put(log.version + 1, "z")])
        log.close()
        assert len(versions(ChangeLog(path, 0))) == 2 * whole + 1


@pytest.mark.parametrize("zeros", [1, 7, 1000, 5000])
def test_zeros_at_the_end_are_cut_off(path: Path, zeros: int) -> None:
    """A file system may leave them after a power failure."""
    filled(path, 2)
    with path.open("ab") as file:
        file.write(bytes(zeros))
    assert ChangeLog(path, 0).version == 4


def test_a_damaged_last_block_is_cut_off_and_logged(
    path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module.log, "disabled", False)  # other packages disable all existing loggers
    filled(path, 2)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    assert versions(ChangeLog(path, 0)) == [1, 2]
    assert "are not a complete change and were removed" in caplog.text


def test_damage_in_the_middle_is_refused(path: Path) -> None:
    ends = filled(path, 3)
    content = path.read_bytes()
    for place in range(HEAD_FORMAT.size, ends[1], 3):
        wrong = bytearray(content)
        wrong[place] ^= 4
        path.write_bytes(wrong)
        with pytest.raises(
            ValueError, match=r"gallery.log is damaged from byte \d+ to byte \d+, .* restore it .* or move"
        ):
            ChangeLog(path, 0)
        assert path.read_bytes() == wrong  # and nothing was cut off


def test_a_missing_block_is_refused(path: Path) -> None:
    first, second, _ = filled(path, 3)
    content = path.read_bytes()
    path.write_bytes(content[:first] + content[second:])
    with pytest.raises(ValueError, match="jumps from change 2 to change 5; restore it"):
        ChangeLog(path, 0)


def test_an_older_copy_of_the_folder_is_refused(path: Path) -> None:
    filled(path, 2, position=10)
    with pytest.raises(ValueError, match=r"after change 10, but .* older copy: .* up to 9; restore .* discards its 4"):
        ChangeLog(path, 9)
    path.unlink()
    filled(path, 0, position=10)
    log = ChangeLog(path, 9)  # the log contains nothing that is missing
    assert log.version == 10


def test_only_what_the_folder_lacks_is_kept(path: Path) -> None:
    log = ChangeLog(path, 0)
    for number in range(1, 6):
        log.append([put(number, "a")])
    before = log.size
    log.restart(3)
    assert log.folded(3) == 0
    assert log.folded(4) == log.folded(5) // 2 == (before - HEAD_FORMAT.size) // 5
    log.append([put(6, "b")])
    log.restart(2)  # it starts after 3 already
    log.close()
    again = ChangeLog(path, 3)
    assert versions(again) == [4, 5, 6]
    again.restart(6)
    assert (again.version, again.size) == (6, HEAD_FORMAT.size)
    again.append([put(7, "c")])
    again.close()
    assert versions(ChangeLog(path, 6)) == [7]
    assert [name.name for name in path.parent.iterdir()] == [path.name]


def test_a_block_partly_in_the_folder_is_kept(path: Path) -> None:
    filled(path, 2)
    log = ChangeLog(path, 3)
    assert versions(log) == [4]
    log.restart(3)
    log.close()
    assert versions(ChangeLog(path, 3)) == [4]


def test_files_of_a_killed_restart_are_removed(path: Path) -> None:
    left = path.parent / f".{path.name}.x1y2.part"
    other = path.parent / f".{path.name}x.y2.part"
    left.write_bytes(b"")
    other.write_bytes(b"")
    ChangeLog(path, 0).close(remove=True)
    assert list(path.parent.iterdir()) == [other]


def failing(monkeypatch: pytest.MonkeyPatch, name: str, when: int = 0) -> None:
    """Make a system call fail after some successful ones."""
    real, calls = getattr(os, name), []

    def fail(*given: Any) -> Any:
        calls.append(given)
        if len(calls) > when:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(*given)

    monkeypatch.setattr(module.os, name, fail)


def test_a_full_disk_leaves_the_log_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = ChangeLog(path, 0)
    log.append([put(1, "a")])
    size = path.stat().st_size
    write, pieces = os.write, []

    def some(number: int, content: Any) -> int:
        """Write a few bytes at a time, then none."""
        pieces.append(content)
        if len(pieces) > 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(number, bytes(content[:10]))

    with monkeypatch.context() as patched:
        patched.setattr(module.os, "write", some)
        with pytest.raises(OSError, match="No space"):
            log.append([put(2, "b")])
    assert path.stat().st_size == size
    assert (log.version, log.broken) == (1, "")
    log.append([put(2, "c")])
    log.close()
    assert [change.ids for change in ChangeLog(path, 0).left] == [["a"], ["c"]]


def test_nothing_is_accepted_after_a_flush_that_failed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = ChangeLog(path, 0)
    with monkeypatch.context() as patched:
        failing(patched, "fsync")
        with pytest.raises(OSError, match="No space"):
            log.append([put(1, "a")])
    with pytest.raises(OSError, match=r"^the log could not be written \(No space left on device\); restart"):
        log.append([put(1, "a")])
    assert log.version == 0


def test_nothing_is_accepted_if_a_partial_write_cannot_be_cut_off(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = ChangeLog(path, 0)
    failing(monkeypatch, "write", 0)
    failing(monkeypatch, "ftruncate", 0)
    with pytest.raises(OSError, match="No space"):
        log.append([put(1, "a")])
    assert "restart the service" in log.broken


def test_a_restart_that_fails_leaves_the_log_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = ChangeLog(path, 0)
    log.append([put(1, "a")])
    log.append([put(2, "a")])
    with monkeypatch.context() as patched:
        patched.setattr(atomic.os, "replace", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, "No space")))
        with pytest.raises(OSError, match="No space"):
            log.restart(1)
    log.append([put(3, "c")])
    log.close()
    assert versions(ChangeLog(path, 0)) == [1, 2, 3]


@pytest.mark.parametrize("content", [b"", b"nothing of ours", bytes(200), pack_head(3, bytes(16))[:-1]])
def test_foreign_files_are_refused_and_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(ValueError, match="not a log that kinrank wrote, or its beginning is damaged"):
        ChangeLog(path, 0)
    assert path.read_bytes() == content
    assert last_logged_version(path.with_suffix("")) == 0


def test_folders_and_pipes_are_refused(path: Path) -> None:
    path.mkdir()
    with pytest.raises(ValueError, match="is not a file"):
        ChangeLog(path, 0)
    path.rmdir()
    os.mkfifo(path)
    with pytest.raises(ValueError, match="is not a file"):
        ChangeLog(path, 0)
    assert last_logged_version(path.with_suffix("")) == 0


def crafted(body: bytes, length: int | None = None) -> bytes:
    """Return a log with one change and valid checksums."""
    key = bytes(16)
    head = BLOCK_FORMAT.pack(BLOCK_MARK, 1, 1, len(body) if length is None else length)
    sums = [hashlib.blake2b(part, digest_size=size, key=key).digest() for part, size in ((head, 8), (body, 16))]
    return b"".join([pack_head(0, key), head, *sums, body])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"x", "a line is not terminated"),
        (b"x\n", "is not JSON"),
        (b"[" * 10**5 + b"\n", "is not JSON"),
        (b"[]\n", "is not JSON"),
        (b'{"kind":"put","version":1,"ids":[1],"first":null}\n', "is not JSON"),
        (b'{"kind":"drop","version":1,"ids":[1],"first":null,"shape":null}\n', "does not describe a change"),
        (b'{"kind":"put","version":1,"ids":[1],"first":null,"shape":[1]}\n', "does not describe a change"),
        (b'{"kind":"put","version":1,"ids":[1],"first":null,"shape":[-1,-1]}\n1234', "cannot have the shape"),
        (b'{"kind":"put","version":true,"ids":[1],"first":null,"shape":[1,1]}\n1234', "does not describe a change"),
        (b'{"kind":"put","version":1,"ids":[{}],"first":null,"shape":[1,1]}\n1234', "does not describe a change"),
        (b'{"kind":"put","version":1,"ids":[1],"first":null,"shape":[2,1]}\n12345678', "not give the ids of its items"),
        (b'{"kind":"put","version":1,"ids":null,"first":null,"shape":[1,1]}\n1234', "not give the ids of its items"),
        (b'{"kind":"put","version":1,"ids":null,"first":0,"shape":[99999999999,99999999999]}\n', "more numbers"),
        (b'{"kind":"remove","version":1,"ids":null,"first":null,"shape":null}\n', "a removal does not give the ids"),
        (b'{"kind":"remove","version":2,"ids":[1],"first":null,"shape":null}\n', "claims to be change 2"),
        (b"", "contains 0 changes but claims 1"),
    ],
)
def test_crafted_changes_are_refused(path: Path, body: bytes, message: str) -> None:
    path.write_bytes(crafted(body))
    with pytest.raises(ValueError, match=message):
        ChangeLog(path, 0)


def test_announced_sizes_are_not_believed(path: Path) -> None:
    path.write_bytes(crafted(b"12", length=2**63))
    assert ChangeLog(path, 0).version == 0


def test_vectors_that_look_like_blocks_do_not_pass_for_any(path: Path) -> None:
    """A client sends the bytes of a block with another key, and the service is killed while it writes them."""
    filled(path, 1)
    forged = path.read_bytes()[HEAD_FORMAT.size :]
    path.unlink()
    log = ChangeLog(path, 0)
    log.append([put(1, "a")])
    inner = np.frombuffer(forged + bytes(-len(forged) % 4), np.float32)[None]
    log.append([Change(vectors=inner, ids=["forged"], version=2)])
    log.close()
    path.write_bytes(path.read_bytes()[:-1])
    assert versions(ChangeLog(path, 0)) == [1]


def test_a_log_that_cannot_be_opened_again_is_not_replaced(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No file descriptors are left during a restart: later changes must be appended to the existing file."""
    log = ChangeLog(path, 0)
    log.append([put(1, "a")])
    with monkeypatch.context() as patched:
        patched.setattr(os, "dup", lambda _: (_ for _ in ()).throw(OSError(errno.EMFILE, "too many open files")))
        with pytest.raises(OSError, match="too many open files"):
            log.restart(1)
    log.append([put(2, "b")])
    log.close()
    assert versions(ChangeLog(path, 0)) == [1, 2]
