"""A real service that is changed, searched and killed for a while, and checked against what its clients know.

    python -m faults.service_soak --seconds 1200 --workers 2

Clients add, replace and remove items, observe queries, search and explain, each in a thread of its own. The service, or
one of its workers, is killed at random moments or stopped, and started again. Then every acknowledged change must be
there, every other one wholly or not at all.
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
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import numpy as np

import kinrank as kr
from faults.ledger import LIMIT, WIDTH, Change, Editions, Ledger, Rows, View, row_of
from faults.test_service_kills import awaited, left_over
from kinrank.client import Busy
from kinrank.manifold.beside import log_of
from kinrank.manifold.verify import verify
from kinrank.web.settings import Settings

METHOD = kr.LPMT(k1=8, k2=3, k=3, path_k=3, support=8)
BASE = [f"base{number}" for number in range(80)]  # items that nobody changes
OWN, NAMES = 14, 40  # items that a writer keeps at most, and names that it ever gives
WRITERS, SEARCHERS = 3, 2
EVERYTHING = 300  # more than there are items
PARTS = ("", "change-", "data-", ".log.")  # what is being written when the service is killed; any moment for ""
PACE = 0.15  # seconds that a writer rests at most: searches wait for changes that were acknowledged
QUIET = 0.5  # seconds without a new version, after which no change is under way
PATIENCE = 120.0  # seconds for a process to start or to end
GROWTH = 1.3  # of the memory of a process in its second half, against its first
SLACK = 40 * 2**20  # bytes that do not count


class Served:
    """The processes of a service, started and killed by their numbers."""

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
                [sys.executable, "-m", "kinrank.web.processes.supervisor"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment,
            )  # fmt: skip
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(settings.to_json(), file=self.process.stdin, flush=True)
        address = self.process.stdout.readline().strip()
        assert address, f"the service does not start: {self.said()}"
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
        """Kill the process that writes, and see to it that its workers end by themselves."""
        assert self.process is not None
        orphans = self.children()
        self.process.kill()
        self.process.communicate()
        self.wait_for(lambda: not any(_alive(one) for one in orphans), "workers outlive the process that started them")

    def kill_worker(self, random: Random) -> bool:
        """Kill one of several workers, which is then replaced; False if there is none."""
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
        assert code == 0, f"the service ended with code {code}: {self.said()}"

    def memory(self) -> dict[int, int]:
        """Bytes of memory of every process."""
        found = {}
        for one in [self.main, *self.children()]:
            with contextlib.suppress(OSError, IndexError):
                pages = Path(f"/proc/{one}/statm").read_text().split()
                found[one] = (int(pages[1]) - int(pages[2])) * os.sysconf("SC_PAGE_SIZE")  # without mapped files
        return found

    def said(self) -> str:
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
    """Clients of a service, and whoever kills it.

    Attributes:
        ledger: what the service must hold.
        failures: what went wrong in threads.
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

    def run(self, seconds: float) -> Counter[str]:
        """Kill and check for so many seconds; what was counted."""
        counts, end = self.ledger.counts, time.monotonic() + seconds
        for thread in self._threads:
            thread.start()
        try:
            self._live(lambda: self._watch_memory(seconds / 3))
            self._stop()
            while time.monotonic() < end or not counts["kills of the service"]:
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
        """Start the service, check what it holds, and let the clients at it for a while."""
        self.client = self.served.start()
        self._check_state()
        self._go.set()
        life()
        self._raise()

    def _watch_memory(self, seconds: float) -> None:
        """Nobody is killed for a while: the memory of all processes stays what it is."""
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
        """Kill the service at any moment, or while a part of a file is being written."""
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
        assert not log_of(folder).exists(), "a log is left after a stop in order"
        assert verify(folder).whole
        assert left_over(folder) == set()
        manifold = kr.Manifold.load(folder)
        snapshot = manifold._snapshot
        vectors = dict(zip(manifold.ids.tolist(), snapshot.item_vectors, strict=True))
        self.ledger.resolve(set(vectors), vectors, manifold._journal.folded)
        self.ledger.check_remembered(snapshot.vectors[snapshot.remembered.queries])
        self.ledger.counts["stops"] += 1

    def _check_state(self) -> None:
        """Nobody changes anything: ask the service which items it has, and for the vectors of some, and compare."""
        assert self.client is not None
        self._wait_until_quiet()
        with kr.Client(self.client._line.address, timeout=60) as client:
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
        """Return once no change has arrived for a moment: one that is in doubt may still be on its way."""
        assert self.client is not None
        version, since = -1, time.monotonic()
        while time.monotonic() - since < QUIET:
            if (now := self.client._line.call("GET", "/v1/info")["version"]) != version:
                version, since = now, time.monotonic()
            time.sleep(0.05)

    def _check_places(self) -> None:
        """No files pile up, whatever was killed: the next start removes the temporary folders of killed processes."""
        left = [path.name for path in self.served.temporary.iterdir()]
        assert not left, f"temporary files are left: {left}"
        beside = {path.name for path in self.served.home.iterdir()}
        assert beside <= {"gallery", "tmp", "stderr"}, f"files are left beside the gallery: {beside}"
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
        """True while clients may act; whoever pauses them waits for the end of the block."""
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
        """Add, replace or remove some items of this writer's own."""
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
        except Busy as error:
            sent_once = change.removes or fresh  # `upsert` is sent again where a connection broke
            (self.ledger.drop if sent_once and "not known" not in str(error) else self.ledger.doubt)(change)
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
    """Something that can be done with the items of one writer; None if too many of them are in doubt."""
    mine = {name: edition for name, edition in editions.items() if name.startswith(prefix)}
    free = sorted(name for name in mine if name not in changing)
    there, gone = ([name for name in free if (mine[name] is None) == absent] for absent in (False, True))
    kind = random.choice(["add", "replace", "remove"]) if len(there) < OWN else "remove"
    some = random.sample(there, min(len(there), random.randint(1, 3)))
    if kind == "remove" and some:
        return Change({name: mine[name] for name in some}, dict.fromkeys(some))
    fresh = random.sample(gone, min(len(gone), random.randint(1, 2)))
    if len(mine) < NAMES:
        fresh.append(f"{prefix}{len(mine)}")
    changed = [*some, *fresh] if kind == "replace" else fresh
    number = random.getrandbits(20)  # an edition that these items never had
    return Change({name: mine.get(name) for name in changed}, dict.fromkeys(changed, number)) if changed else None


def soak(seconds: float, workers: int, seed: int) -> Counter[str]:
    """Run for so many seconds in a folder of its own, which is removed if all is well."""
    home = Path(tempfile.mkdtemp(prefix="soak-"))
    counts = Soak(home, workers, seed).run(seconds)
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
