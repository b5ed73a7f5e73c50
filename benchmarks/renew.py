"""Measure again what README and docs print and what is not of the current code: `make bench-all`.

`python benchmarks/renew.py --data DIR` runs the benchmarks one after the other and appends their records to
results.jsonl. What is of the current code is skipped, so the same command continues after an interruption. What the
tables have room for but nobody has measured is measured, too: LPMT as published, and the paper's features in the
folder. `--list` only prints what remains; names of benchmarks (`renew.py speed candidates`) restrict it to these.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "docs"))

from generator.records import Measurements, Result, read  # noqa: E402
from generator.two_lpmts import AS_PUBLISHED, DEFAULTS  # noqa: E402

from kinrank_bench.datasets import find_feature_sets  # noqa: E402
from kinrank_bench.paper.feature_selection import TABLE_BY_FEATURES  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results.jsonl"
LARGE_SIZES = (1_000_000,)  # measured separately: they take longest
BEGIN = "from kinrank_entry.start import main; main()"


class Job(NamedTuple):
    """A command `kinrank bench ...`, the printed results that it measures, and names of what was never measured."""

    words: list[str]
    results: list[Result]
    missing: tuple[str, ...] = ()

    @property
    def earlier(self) -> list[Result]:
        """The results that are not of the current code."""
        return [result for result in self.results if not result["origin"].current]


def list_jobs(found: Measurements, data: str) -> Iterator[Job]:
    """Yield the commands that measure everything that is printed, the shortest first."""
    folder = ["--data", data]
    yield Job(["candidates", *folder], list(found.candidates.values()))
    yield Job(["modes", *folder, "--parts", "remembered", "--queries", "400"], _flatten(found.remembered.values()))
    for name in ("service", "photos", "diagnosis"):
        if record := getattr(found, name):
            yield Job([name, *folder], [record])
    yield from _list_paper_jobs(found, data)
    for learned_on, record in found.whitening.items():
        yield Job(["whitening", *folder, "--on", learned_on], [record])
    yield from _list_scale_jobs(found, folder)
    for name, parts, results in (
        ("speed", [*folder, "--parts", "search,memory"], list(found.speeds.values())),
        ("memory", [], list(found.peaks.values())),
    ):
        yield Job([name, *parts, "--methods", _join_earlier(results, "method")], results)
    for mode in dict.fromkeys(row["mode"] for row in found.left_out):
        rows = [row for row in found.left_out if row["mode"] == mode]
        sets, others = _join(rows, "set"), _join([row for row in rows if row["method"] != "lpmt"], "method")
        yield Job(["defaults", *folder, "--parts", mode, "--sets", sets, "--methods", others], rows)
    if found.learned:
        yield Job(["learned", *folder], [found.learned])
    yield Job(["stores", *folder], [row for part in found.stores.values() for row in part])
    if missing := tuple(dict.fromkeys(key[0] for key, row in found.scores.items() if _lacks_published(row))):
        chosen = ["--modes", "joint", "--sets", ",".join(missing), "--methods", AS_PUBLISHED]
        yield Job(["accuracy", *folder, *chosen], [], missing)
    for mode, scores in {"joint": found.scores, **found.apart}.items():
        results = _flatten(scores.values())
        methods, sets = _join_earlier(results, "method"), _join_earlier(results, "set")
        yield Job(["accuracy", *folder, "--modes", mode, "--sets", sets, "--methods", methods], results)


def _list_paper_jobs(found: Measurements, data: str) -> Iterator[Job]:
    """Yield one command for the features that are printed and those of the paper in the folder."""
    if not found.paper:
        return
    measured = [(entry["set"], entry["features"]) for entry in found.paper["found"]]
    present = find_feature_sets(data) if Path(data).is_dir() else []
    more = [
        (entry.set, entry.features)
        for entry in present
        if entry.features in TABLE_BY_FEATURES and not entry.distractors
    ]
    missing = [f"{name}_{features}" for name, features in more if (name, features) not in measured]
    methods = {row["method"]: row for row in found.paper["scores"]}
    missing += [AS_PUBLISHED] * _lacks_published(methods)
    sets, features = (",".join(dict.fromkeys(names)) for names in zip(*measured, *more, strict=True))
    chosen = ["--sets", sets, "--features", features, "--output", "out/paper"]
    yield Job(["paper", "--data", data, *chosen], [found.paper], tuple(missing))


def _lacks_published(row: dict[str, Result]) -> bool:
    """True if a row has a result of LPMT with its defaults only."""
    return DEFAULTS in row and AS_PUBLISHED not in row


def _list_scale_jobs(found: Measurements, folder: list[str]) -> Iterator[Job]:
    """Yield the modes, the usual sizes with all changes, and the large sizes."""
    sets = ",".join(dict.fromkeys(name for name, _ in found.modes))
    none = ["--sizes", "", "--change", ""]
    yield Job(["scale", *folder, "--sets", sets, *none], _flatten(found.modes.values()))
    usual = [size for size in sorted(found.points) if size not in LARGE_SIZES]
    changed = ",".join(map(str, sorted({items for items, _ in found.changes})))
    results = [*(found.points[size] for size in usual), *found.changes.values()]
    yield Job(["scale", "--sizes", ",".join(map(str, usual)), "--change", changed], results)
    for size in LARGE_SIZES:
        if size in found.points:
            probes = found.points[size]["probes"]
            chosen = ["--probes", str(probes)] if probes else []
            yield Job(["scale", "--sizes", str(size), *chosen, "--change", ""], [found.points[size]])


def _flatten(groups: Iterable[dict[str, Result]]) -> list[Result]:
    return [result for group in groups for result in group.values()]


def _join(results: list[Result], key: str) -> str:
    return ",".join(dict.fromkeys(str(result[key]) for result in results))


def _join_earlier(results: list[Result], key: str) -> str:
    return _join([result for result in results if not result["origin"].current], key)


def list_remaining(results: Path, data: str, names: list[str]) -> list[Job]:
    """Return the jobs with results that are missing or not of the current code."""
    jobs = list_jobs(read(results.parent), data)
    return [job for job in jobs if (job.earlier or job.missing) and (not names or job.words[0] in names)]


def run_job(job: Job, results: Path) -> bool:
    """Run a benchmark, which appends its record; True if it ended without an error."""
    record = ["--record" if job.words[0] == "paper" else "--output", str(results)]
    return subprocess.run([sys.executable, "-c", BEGIN, "bench", *job.words, *record], cwd=ROOT).returncode == 0


def format_job(job: Job) -> str:
    """The command, how much of what it measures is of an earlier version, and what was never measured."""
    words = " ".join(word if word else "''" for word in job.words)
    earlier = [f"{len(job.earlier)} of {len(job.results)} results are of an earlier version"] if job.results else []
    missing = [f"never measured: {', '.join(job.missing)}"] if job.missing else []
    return f"kinrank bench {words}   ({'; '.join([*earlier, *missing])})"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="renew.py", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("names", nargs="*", help="names of benchmarks; default: all")
    parser.add_argument("--data", default=str(ROOT.parent / "shared" / "data"), help="folder with published features")
    parser.add_argument("--list", action="store_true", help="only print what remains")
    given = parser.parse_args(arguments)
    data = str(Path(given.data).resolve())
    jobs = list_remaining(RESULTS, data, given.names)
    for job in jobs if given.list else ():
        print(format_job(job))
    if not given.list:
        try:
            for number, job in enumerate(jobs, 1):
                started = time.monotonic()
                print(f"{number} of {len(jobs)}: {format_job(job)}", flush=True)
                said = "done" if run_job(job, RESULTS) else "failed"
                print(f"{said} after {(time.monotonic() - started) / 60:.1f} minutes", flush=True)
        except KeyboardInterrupt:
            print("stopped; the same command continues from here", file=sys.stderr)
            return 130
        subprocess.run([sys.executable, str(ROOT / "docs" / "build.py"), "--numbers"], cwd=ROOT, check=True)
        jobs = list_remaining(RESULTS, data, given.names)
        for job in jobs:
            print(f"remains: {format_job(job)}")
    which = f" of {', '.join(given.names)}" if given.names else ""
    print(
        f"{len(jobs)} {'command remains' if len(jobs) == 1 else 'commands remain'}"
        if jobs
        else f"all printed numbers{which} are of this code"
    )
    return 1 if jobs and not given.list else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
