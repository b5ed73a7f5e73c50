"""Settings -> a service in processes of its own, and what they use: memory and time of processors."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from kinrank.web.settings import Settings

END = 60.0  # seconds in which a service must have saved everything


@contextlib.contextmanager
def running(settings: Settings) -> Iterator[tuple[str, int]]:
    """The address of a service with these settings and the number of its first process, while the block runs."""
    command = [sys.executable, "-m", "kinrank.web.processes.supervisor"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        print(settings.to_json(), file=process.stdin, flush=True)
        address = process.stdout.readline().strip()
        if not address:
            raise OSError(f"the service did not start; it ended with code {process.wait(END)}")
        yield address, process.pid
    finally:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()  # which ends it
        try:
            process.wait(END)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def family(process: int) -> list[int]:
    """A process and its children, as far as /proc knows them."""
    found = [process]
    with contextlib.suppress(OSError):
        found += [int(word) for word in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    return found


def memory_bytes(process: int) -> int | None:
    """What a process and its children hold; what they share counts once. None where there is no /proc."""
    try:
        texts = [Path(f"/proc/{one}/smaps_rollup").read_text() for one in family(process)]
    except OSError:
        return None
    return 1024 * sum(int(line.split()[1]) for text in texts for line in text.splitlines() if line.startswith("Pss:"))


def processor_seconds(process: int) -> float | None:
    """Time of processors that a process and its children have used so far; None where there is no /proc."""
    try:
        texts = [Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split() for one in family(process)]
    except OSError:
        return None
    return sum(int(words[11]) + int(words[12]) for words in texts) / os.sysconf("SC_CLK_TCK")
