"""The entry point of the command: Ctrl-C at any moment, closed streams, links that lead in a circle."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reference.commands import bad, good

SCRIPT = str(Path(sys.executable).with_name("kinrank"))
VERBS = ["--help", "search @m --queries @rows.npy", "rerank --gallery @rows.npy -o @r.npz"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("entry")
    rows = np.random.default_rng(0).standard_normal((60, 8)).astype(np.float32)
    np.save(path / "rows.npy", rows)
    np.save(path / "labels.npy", np.arange(60) % 6)
    good(path, "build", "--gallery", "@rows.npy", "-o", "@m")
    good(path, "rerank", "--gallery", "@rows.npy", "-o", "@ranking.npz")
    (path / "loop").symlink_to(path / "loop")
    return path


def words_in(folder: Path, words: str) -> list[str]:
    return [f"{folder}/{word[1:]}" if word.startswith("@") else word for word in words.split()]


INTERRUPTED = """
import os, runpy, signal, sys

class Interrupt:
    left = int(sys.argv.pop(1))

    def find_spec(self, name, path=None, target=None):
        if hasattr(sys.modules.get("kinrank_entry.start"), "main"):
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def interrupted(command: list[str], imports: int) -> tuple[int, str]:
    """Run a script that gets SIGINT at this import after `kinrank_entry.start`; return its exit code and messages.

    It sends the signal to itself, so that the moment does not depend on a clock. A process that needs fewer imports is
    not interrupted.
    """
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, str(imports), *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        timeout=180,
        # a test that runs in the background ignores it
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("words", VERBS)
def test_ctrl_c_during_imports_is_one_line(folder: Path, words: str) -> None:
    for imports in (1, random.Random(words).randrange(2, 600)):
        code, message = interrupted([SCRIPT, *words_in(folder, words)], imports)
        assert (code, message.strip()) == (130, "kinrank: interrupted"), imports


def test_ctrl_c_in_a_destructor_is_not_lost() -> None:
    """Python drops exceptions of destructors and callbacks; the interrupt must come again."""
    program = (
        "import os, signal, sys, time\n"
        "import kinrank_entry.start\n"
        "from kinrank.cli.errors import run_command\n"
        "class Held:\n"
        "    def __del__(self):\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "        time.sleep(600)\n"
        "def work():\n"
        "    Held()\n"
        "    time.sleep(600)\n"
        "sys.exit(run_command(work))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=180,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (130, "kinrank: interrupted\n")


def test_ctrl_c_does_not_keep_the_lock_of_the_compiler() -> None:
    """An interrupt right after `acquire` must not leave llvmlite's lock taken: other threads would wait forever."""
    program = (
        "import os, signal, sys, threading, time\n"
        "import kinrank_entry.start\n"
        "from kinrank.cli.errors import run_command\n"
        "from llvmlite.binding import ffi\n"
        "class Interrupted:\n"
        "    def __init__(self, lock):\n"
        "        self.lock = lock\n"
        "    def acquire(self):\n"
        "        self.lock.acquire()\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "        time.sleep(0.01)\n"
        "    def release(self):\n"
        "        self.lock.release()\n"
        "lock = ffi._LLVMLock()\n"
        "real = lock._lock\n"
        "lock._lock = Interrupted(real)\n"
        "def work():\n"
        "    with lock:\n"
        "        time.sleep(600)\n"
        "code = run_command(work)\n"
        "free = []\n"
        "other = threading.Thread(target=lambda: free.append(real.acquire(timeout=60)))\n"
        "other.start()\n"
        "other.join()\n"
        "print(code, free)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=180,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("130 [True]\n", "kinrank: interrupted\n")


def test_an_ignored_interrupt_stays_ignored() -> None:
    """Shells start background jobs with SIGINT ignored."""
    program = "import kinrank_entry.start, signal; signal.raise_signal(signal.SIGINT); print('on')"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "on\n", "")


def test_a_program_that_imports_kinrank_keeps_its_interrupts() -> None:
    program = "import kinrank, signal; assert signal.getsignal(signal.SIGINT) is signal.default_int_handler"
    subprocess.run(
        [sys.executable, "-c", program], check=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip


def shell(folder: Path, words: str, streams: str) -> Any:
    """The command with streams as a shell makes them."""
    line = f"exec {SCRIPT} {' '.join(words_in(folder, words))} {streams}"
    return subprocess.run(["sh", "-c", line], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100)


@pytest.mark.parametrize("words", ["methods", "--version", "evaluate @ranking.npz --labels @labels.npy"])
def test_closed_output_is_one_sentence(folder: Path, words: str) -> None:
    done = shell(folder, words, ">&-")
    assert done.returncode == 2
    lost = "standard output is closed and what was printed is lost; redirect it to a file or to /dev/null"
    assert done.stderr == f"kinrank: error: {lost}\n"


def test_what_prints_nothing_needs_no_output(folder: Path) -> None:
    done = shell(folder, "rerank --gallery @rows.npy -o @quiet.npz -q", ">&-")
    assert (done.returncode, done.stderr) == (0, "")
    assert (folder / "quiet.npz").is_file()


def test_a_result_for_a_closed_output_is_one_sentence(folder: Path) -> None:
    done = shell(folder, "rerank --gallery @rows.npy -o - -q", ">&-")
    assert done.returncode == 2
    assert "standard output is closed" in done.stderr
    assert done.stderr.count("\n") == 1


def test_closed_input_is_one_sentence(folder: Path) -> None:
    done = shell(folder, "rerank --gallery - -o @x.npz", "<&-")
    assert done.returncode == 2
    message = "standard input is closed; give the path of a file, or pipe the content in"
    assert done.stderr == f"kinrank: error: {message}\n"
    done = shell(folder, "methods lpmt", "<&-")
    assert (done.returncode, done.stderr) == (0, "")


def test_closed_messages_are_nobodys_concern(folder: Path) -> None:
    done = shell(folder, "methods", "2>&-")
    assert done.returncode == 0
    assert "lpmt" in done.stdout
    assert shell(folder, "info @nowhere", "<&- >&- 2>&-").returncode == 2


def test_closed_streams_leave_no_descriptor_to_files(folder: Path) -> None:
    """A file that is opened as descriptor 1 would receive what native code prints."""
    program = (
        "import sys; from kinrank.cli.streams import replace_closed_streams; replace_closed_streams();"
        "print(open('/dev/null').fileno(), file=sys.__stderr__)"
    )
    line = f'exec {sys.executable} -c "{program}" <&- >&-'
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True)
    assert int(done.stderr) > 2


LOOPS = [
    "rerank --gallery @loop -o @x.npz",
    "rerank --gallery @rows.npy --queries @loop -o @x.npz",
    "rerank --gallery @rows.npy -o @loop",
    "rerank --gallery @rows.npy -o @loop/x.npz",
    "rerank --gallery @rows.npy --where @loop -o @x.npz",
    "rerank --gallery @rows.npy --item-ids @loop -o @x.npz",
    "evaluate @loop --query-labels @labels.npy --gallery-labels @labels.npy",
    "evaluate @ranking.npz --query-labels @loop --gallery-labels @labels.npy",
    "compare --gallery @loop --gallery-labels @labels.npy",
    "tune --gallery @loop",
    "fuse @loop @ranking.npz -o @x.npz",
    "fuse @ranking.npz @ranking.npz -o @loop",
    "whiten @loop -o @x.npy",
    "whiten @rows.npy -o @loop",
    "fit csa -f @loop --labels @labels.npy -o @x.npz",
    "fit csa -f @rows.npy --labels @labels.npy -o @loop",
    "fit csa --checkpoint @loop -o @x.npz",
    "build --gallery @loop -o @x",
    "build --gallery @rows.npy -o @loop",
    "build --gallery @rows.npy -o @loop/x",
    "build --gallery @rows.npy --ids @loop -o @x",
    "search @loop --queries @rows.npy",
    "search @m --queries @loop",
    "search @m --queries @rows.npy -o @loop",
    "search @m --queries @rows.npy --where @loop",
    "search @m --queries @rows.npy --groups @loop",
    "explain @loop --queries @rows.npy --query 0 --item 1",
    "explain @m --queries @loop --query 0 --item 1",
    "add @loop --vectors @rows.npy",
    "add @m --vectors @loop",
    "remove @loop --item 3",
    "sync @loop --store sqlite-vec:nowhere",
    "observe @loop --queries @rows.npy",
    "info @loop",
    "verify @loop",
    "export @loop -o @x",
    "export @m -o @loop",
    "groups @loop",
    "serve @loop",
    "serve @m --queries @loop",
    "watch @loop @x --once",
    "embed @loop -o @x.npy",
    "embed @loop/a -o @x.npy",
    "report --gallery @loop --labels @labels.npy -o @x.html",
    "report --gallery @rows.npy --labels @labels.npy -o @loop",
    "demo -o @loop",
    "bench speed --data @loop -o @x.jsonl",
]


@pytest.mark.parametrize("words", LOOPS)
def test_links_in_a_circle_are_one_sentence(folder: Path, words: str) -> None:
    bad(folder, *words.split())


@pytest.mark.parametrize("words", ["info @m", "rerank --gallery @rows.npy -o @x.npz"])
def test_a_compiler_that_is_switched_off_is_one_sentence(folder: Path, words: str) -> None:
    command, without = [SCRIPT, *words_in(folder, words)], {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(command, env=without, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("kinrank: error: the environment variable NUMBA_DISABLE_JIT switches off")
    assert done.stderr.count("\n") == 1
