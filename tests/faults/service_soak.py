"""A real service that is changed, searched and killed for a while, and checked against the records of its clients.

    python -m faults.service_soak --seconds 1200 --workers 2

Clients add, replace and remove items, observe queries, search and explain, each in its own thread. The service, or one
of its workers, is killed at random moments or stopped, and started again. Then every acknowledged change must be
there, and every other one completely or not at all.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random

import numpy as np

import kinrank as kr
from faults.acknowledged_changes import LIMIT, WIDTH, Change, Editions, Ledger, Rows, View, row_of
from faults.test_service_kills import awaited, left_over
from kinrank.client import ServiceBusyError
from kinrank.manifold.saved_folder import log_path
from kinrank.manifold.verify import verify
from kinrank.web.settings import Settings

METHOD = kr.LPMT(k1=8, k2=3, k=3, path_k=3, support=8)
BASE = [f"base{number}" for number in range(80)]  # items that are never changed
OWN, NAMES = 14, 40  # maximum number of a writer's items, and number of ids it uses
WRITERS, SEARCHERS = 3, 2
EVERYTHING = 300  # more than there are items
PARTS = ("", "change-", "data-", ".log.")  # file that is being written when the service is killed; any moment for ""
PACE = 0.15  # longest pause of a writer in seconds: searches wait for acknowledged changes
QUIET = 0.5  # seconds without a new version after which no change is under way
PATIENCE = 120.0  # seconds for a process to start or to end
LONGEST_SECONDS = 600.0  # longer than asked, if a slow machine has not reached the counts asked for
GROWTH = 1.3  # growth of a process's memory from the first to the second half
SLACK = 40 * 2**20  # bytes that are ignored


class Served:
    """The processes of a service, started and killed by their process ids."""

    def __init__(self, home: Path, workers: int) -> None:
        self.home, self.folder, self.workers = home, home / "gallery", workers
        self.temporary = home / "tmp"
        self.temporary.mkdir()
        self.errors = home / "stderr"
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> kr.Client:
        settings = Settings(str(self.folder), writable=True, port=0, workers=self.workers)
        places = [str(Path(__file__).parents[1]), str(Path(kr.__file__).parents[1])]
        environment = {**os.environ, "TMPDIR": str(self.temporary), "PYTHONPATH": os.pathsep.join(places)}
        with self.errors.open("a") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "kinrank.web.server.supervisor"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=environment,
            )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(settings.to_json(), file=self.process.stdin, flush=True)
        address = self.process.stdout.readline().strip()
        assert address, f"the service does not start: {self.message()}"
        return kr.Client(address, timeout=60)

    @property
    def main(self) -> int:
        assert self.process is not None
        return self.process.pid

    def children(self) -> list[int]:
        with contextlib.suppress(OSError):
            return [int(word) for word in Path(f"/proc/{self.main}/task/{self.main}/children").read_text().split()]
        return []

    def kill(self) -> None:
        """Kill the process that writes, and check that its workers end by themselves."""
        assert self.process is not None
        orphans = self.children()
        self.process.kill()
        self.process.communicate()
        self.wait_for(lambda: not any(_alive(one) for one in orphans), "workers outlive the process that started them")

    def kill_worker(self, random: Random) -> bool:
        """Kill one of several workers, which is then replaced; return False if there is none."""
        workers = self.children() if self.workers > 1 else []
        if not workers:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(random.choice(workers), signal.SIGKILL)
        return True

    def stop(self) -> None:
        assert self.process is not None
        self.process.terminate()
        code = self.process.wait(PATIENCE)
        self.process.communicate()
        assert code == 0, f"the service ended with code {code}: {self.message()}"

    def memory(self) -> dict[int, int]:
        """Return the memory of every process in bytes."""
        found = {}
        for one in [self.main, *self.children()]:
            with contextlib.suppress(OSError, IndexError):
                pages = Path(f"/proc/{one}/statm").read_text().split()
                found[one] = (int(pages[1]) - int(pages[2])) * os.sysconf("SC_PAGE_SIZE")  # without mapped files
        return found

    def message(self) -> str:
        return self.errors.read_text()[-4000:]

    @staticmethod
    def wait_for(true: Callable[[], bool], otherwise: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not true():
            assert time.monotonic() < deadline, otherwise
            time.sleep(0.05)


def _alive(process: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


class Soak:
    """Clients of a service, and the thread that kills it.

    Attributes:
        ledger: expected content of the service.
        failures: errors in threads.
    """

    def __init__(self, home: Path, workers: int, seed: int) -> None:
        self.served, self.random, self.ledger = Served(home, workers), Random(seed), Ledger(BASE)
        rows = np.stack([row_of(name, 0) for name in BASE])
        kr.Manifold.build(rows, METHOD, ids=BASE, observed_limit=LIMIT).save(self.served.folder)
        self.failures: list[BaseException] = []
        self._go, self._ended = threading.Event(), False
        self._state, self._active = threading.Condition(), 0
        self._remembered = 0
        self.client: kr.Client | None = None
        work = [self._change] * WRITERS + [self._search] * SEARCHERS + [self._observe]
        self._threads = [
            threading.Thread(target=self._thread, args=[step, f"t{number}-", seed], daemon=True)
            for number, step in enumerate(work)
        ]

    def run(self, seconds: float, at_least: Mapping[str, int]) -> Counter[str]:
        """Kill and check for this many seconds, and until these counts are reached; return the counts."""
        counts, end = self.ledger.counts, time.monotonic() + seconds
        needed = {"kills of the service": 1, **at_least}

        def finished() -> bool:
            reached = all(counts[what] >= count for what, count in needed.items())
            return time.monotonic() > end + (0.0 if reached else LONGEST_SECONDS)

        for thread in self._threads:
            thread.start()
        try:
            self._live(lambda: self._watch_memory(seconds / 3))
            self._stop()
            while not finished():
                self._live(self._kill_workers)
                if self.random.random() < 0.8:
                    self._kill()
                else:
                    self._stop()
            self._live(lambda: None)
            self._stop()
        finally:
            self._end()
        self._check_places()
        return counts

    def _live(self, life: Callable[[], None]) -> None:
        """Start the service, check its content, and let the clients run for a while."""
        self.client = self.served.start()
        self._check_state()
        self._go.set()
        life()
        self._raise()

    def _watch_memory(self, seconds: float) -> None:
        """Check that the memory of all processes stays constant while nothing is killed."""
        samples: list[dict[int, int]] = []
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self.failures:
            time.sleep(0.2)
            samples.append(self.served.memory())
        half = samples[len(samples) // 4 : len(samples) // 2], samples[len(samples) // 2 :]
        for process in samples[-1] if not self.failures else ():
            first, second = (max(sample.get(process, 0) for sample in part) for part in half)
            print(f"process {process}: {first / 2**20:.0f} MB, later {second / 2**20:.0f} MB", flush=True)
            assert second <= GROWTH * first + SLACK, f"memory grows from {first} to {second} bytes"
            self.ledger.counts["checks of memory"] += 1

    def _kill_workers(self) -> None:
        end = time.monotonic() + self.random.uniform(0.5, 6.0)
        while time.monotonic() < end and not self.failures:
            time.sleep(self.random.uniform(0.2, 2.0))
            if self.served.kill_worker(self.random):
                self.ledger.counts["kills of workers"] += 1

    def _kill(self) -> None:
        """Kill the service at a random moment, or while a file is being written."""
        awaited(self.served.folder, self.random.choice(PARTS))
        time.sleep(self.random.random() * 0.05)
        self.served.kill()
        self.ledger.counts["kills of the service"] += 1
        self._pause()

    def _stop(self) -> None:
        """Stop the service in order; everything must then be in the folder."""
        self._pause()
        self._check_state()
        self.served.stop()
        folder = self.served.folder
        assert not log_path(folder).exists(), "a log is left after a stop in order"
        assert verify(folder).whole
        assert left_over(folder) == set()
        manifold = kr.Manifold.load(folder)
        snapshot = manifold.snapshot
        vectors = dict(zip(manifold.ids.tolist(), snapshot.item_vectors, strict=True))
        self.ledger.resolve(set(vectors), vectors, manifold.journal.folded)
        self.ledger.check_remembered(snapshot.vectors[snapshot.remembered.queries])
        self.ledger.counts["stops"] += 1

    def _check_state(self) -> None:
        """Compare the items of the service and some of their vectors with the ledger while nothing changes."""
        assert self.client is not None
        self._wait_until_quiet()
        with kr.Client(self.client._transport.address, timeout=60) as client:
            client.version = self.ledger.version
            info = client.info()
            client.version = info["version"]
            ranking = client.search(np.ones((1, WIDTH)), k=EVERYTHING)
            there = set(ranking.ids[0, ranking.indices[0] >= 0].tolist())
            assert len(client) == len(there)
            names = there & self.ledger.doubtful | set(self.random.sample(sorted(there), 20))
            vectors = {name: np.array(client.get(name, vector=True)["vector"], np.float32) for name in names}
        assert self._remembered <= info["observed"] <= LIMIT, "remembered queries were lost"
        self._remembered = info["observed"]
        self.ledger.resolve(there, vectors, info["version"])

    def _wait_until_quiet(self) -> None:
        """Wait until no change has arrived for a moment, because one with unknown outcome may still be under way."""
        assert self.client is not None
        version, since = -1, time.monotonic()
        while time.monotonic() - since < QUIET:
            if (now := self.client._transport.call("GET", "/v1/info")["version"]) != version:
                version, since = now, time.monotonic()
            time.sleep(0.05)

    def _check_places(self) -> None:
        """Check that files do not accumulate: the next start removes the temporary folders of killed processes."""
        left = [path.name for path in self.served.temporary.iterdir()]
        assert not left, f"temporary files are left: {left}"
        names = {path.name for path in self.served.home.iterdir()}
        assert names <= {"gallery", "tmp", "stderr"}, f"files are left next to the gallery: {names}"
        assert "Traceback" not in self.served.errors.read_text(), self.served.errors.read_text()[-4000:]

    def _thread(self, step: Callable[[Random, str], None], prefix: str, seed: int) -> None:
        random = Random(f"{prefix}{seed}")
        while not self._ended and not self.failures:
            if not self._go.wait(0.2):
                continue
            try:
                with self._acting() as allowed:
                    if allowed:
                        step(random, prefix)
            except BaseException as error:
                self.failures.append(error)

    @contextlib.contextmanager
    def _acting(self) -> Iterator[bool]:
        """True while clients may act; a thread that pauses them waits for the end of the block."""
        with self._state:
            allowed = self._go.is_set()
            self._active += allowed
        try:
            yield allowed
        finally:
            with self._state:
                self._active -= allowed
                self._state.notify_all()

    def _pause(self) -> None:
        with self._state:
            self._go.clear()
            assert self._state.wait_for(lambda: not self._active, PATIENCE), "requests do not end"
        self._raise()

    def _raise(self) -> None:
        if self.failures:
            raise self.failures[0]

    def _end(self) -> None:
        self._ended = True
        self._go.clear()
        process = self.served.process
        if process is not None and process.poll() is None:
            process.kill()
            process.communicate()
        for thread in self._threads:
            thread.join(PATIENCE)

    def _change(self, random: Random, prefix: str) -> None:
        """Add, replace or remove some items of this writer."""
        client, view = self.client, self.ledger.view()
        assert client is not None
        change = next_change(random, view.editions, view.changing, prefix)
        if change is None:
            time.sleep(0.05)  # everything is in doubt
            return
        self.ledger.begin(change)
        names = list(change.after)
        fresh = all(edition is None for edition in change.before.values())
        try:
            if change.removes:
                receipt = client.remove(names)
            else:
                rows = np.stack([row_of(name, edition or 0) for name, edition in change.after.items()])
                receipt = client.add(rows, names) if fresh else client.upsert(rows, names)
        except ServiceBusyError as error:
            sent_once = change.removes or fresh  # `upsert` is sent again after a broken connection
            (self.ledger.drop if sent_once and "unknown" not in str(error) else self.ledger.doubt)(change)
        except (ConnectionError, TimeoutError):
            self.ledger.doubt(change)
        else:
            self.ledger.acknowledge(change, receipt.version)
        time.sleep(random.random() * PACE)

    def _observe(self, random: Random, prefix: str) -> None:
        client = self.client
        assert client is not None
        queries = np.random.default_rng(random.getrandbits(32)).normal(size=(random.randint(1, 4), WIDTH))
        rows = queries.astype(np.float32)
        try:
            version = client.observe(rows).version
        except (ConnectionError, TimeoutError):
            self.ledger.observed(rows, None)
        else:
            self.ledger.observed(rows, version)
        time.sleep(random.random() * 2 * PACE)

    def _search(self, random: Random, prefix: str) -> None:
        client, view = self.client, self.ledger.view()
        assert client is not None
        everything, rows = random.random() < 0.5, row_of(f"query{random.getrandbits(16)}", 0)[None]
        try:
            if random.random() < 0.2:
                self._explain(client, view, random.choice(sorted(view.editions)), rows)
                return
            ranking = client.search(rows, k=EVERYTHING if everything else random.randint(1, 20))
        except (ConnectionError, TimeoutError):
            self._count("searches without an answer")
            return
        count = int((ranking.indices[0] >= 0).sum())
        distances = ranking.distances[0, :count]
        assert np.isfinite(distances).all()
        assert (np.diff(distances) >= 0).all()
        self.ledger.check_search(view, ranking.ids[0, :count].tolist(), everything)
        self._count("searches")

    def _explain(self, client: kr.Client, before: View, item: str, query: Rows) -> None:
        try:
            why = client.explain(query, item)
        except ValueError:
            after = self.ledger.view()
            same = item not in before.changing and before.touches[item] == after.touches[item]
            assert not same or before.editions[item] is None, f"{item} is there and cannot be explained"
        else:
            assert why.names[-1] == item
        self._count("explanations")

    def _count(self, what: str) -> None:
        with self._state:
            self.ledger.counts[what] += 1


def next_change(random: Random, editions: Editions, changing: frozenset[str], prefix: str) -> Change | None:
    """Return a possible change of one writer's items; None if too many of them are in doubt."""
    mine = {name: edition for name, edition in editions.items() if name.startswith(prefix)}
    free = sorted(name for name in mine if name not in changing)
    there, gone = ([name for name in free if (mine[name] is None) == absent] for absent in (False, True))
    kind = random.choice(["add", "replace", "remove"]) if len(there) < OWN else "remove"
    some = random.sample(there, min(len(there), random.randint(1, 3)))
    if kind == "remove" and some:
        return Change({name: mine[name] for name in some}, dict.fromkeys(some))
    fresh = random.sample(gone, min(len(gone), random.randint(1, 2)))
    if len(mine) < NAMES and (newest := f"{prefix}{len(mine)}") not in changing:  # in doubt: it may exist already
        fresh.append(newest)
    changed = [*some, *fresh] if kind == "replace" else fresh
    number = random.getrandbits(20)  # an edition that these items never had
    return Change({name: mine.get(name) for name in changed}, dict.fromkeys(changed, number)) if changed else None


def soak(seconds: float, workers: int, seed: int, at_least: Mapping[str, int] | None = None) -> Counter[str]:
    """Run for this many seconds and until these counts are reached, in a new folder, removed after success."""
    home = Path(tempfile.mkdtemp(prefix="soak-"))
    counts = Soak(home, workers, seed).run(seconds, at_least or {})
    shutil.rmtree(home)
    return counts


def main() -> None:
    words = argparse.ArgumentParser(description="Kill a service again and again, and check that nothing is lost.")
    words.add_argument("--seconds", type=float, default=1200.0)
    words.add_argument("--seed", type=int, default=int(time.time()))
    given = words.parse_args()
    for workers in (1, 2):
        started = time.monotonic()
        counts = soak(given.seconds / 2, workers, given.seed + workers)
        line = {"workers": workers, "seed": given.seed + workers, "seconds": round(time.monotonic() - started)}
        print(json.dumps(line | dict(sorted(counts.items()))), flush=True)


if __name__ == "__main__":
    main()
