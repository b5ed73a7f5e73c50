"""`make bench-all`: it measures what is printed and not of the current code, and nothing else."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from kinrank_bench.fingerprint import fingerprint_record

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def renewal() -> ModuleType:
    spec = importlib.util.spec_from_file_location("renew", ROOT / "benchmarks" / "renew.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PUBLISHED = "lpmt-as-published"


def add_published(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows with LPMT as published next to every result of LPMT in a joint graph."""
    joint = [row for row in rows if row.get("method") == "lpmt" and row.get("mode", "joint") == "joint"]
    return [*rows, *({**row, "method": PUBLISHED} for row in joint)]


def write_records(path: Path, changed: tuple[str, ...] = (), complete: bool = True) -> Path:
    """Write the published records as if they were of the code of today, except for some methods and modes."""
    lines = []
    for line in (ROOT / "benchmarks" / "results.jsonl").read_text("utf-8").splitlines():
        record = json.loads(line)
        if record["bench"] == "accuracy":
            own = [row for row in record["results"] if row.get("method") != PUBLISHED]
            record["results"] = add_published(own) if complete else own
        elif record["bench"] == "paper":
            own = [row for row in record["scores"] if row["method"] != PUBLISHED]
            record["scores"] = add_published(own) if complete else own
            found = [entry for entry in record["found"] if entry["features"] != "pyretri"]
            more = [{**found[0], "set": name, "features": "pyretri"} for name in ("caltech101", "cub200")]
            record["found"] = [*found, *more] if complete else found
        codes = fingerprint_record(record["bench"], record)
        lines.append(
            json.dumps({**record, "fingerprints": codes | dict.fromkeys(set(changed) & set(codes), "earlier")})
        )
    path.write_text("\n".join(lines) + "\n")
    return path


def test_nothing_remains_if_everything_is_of_this_code(
    renewal: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(renewal, "RESULTS", write_records(tmp_path / "r.jsonl"))
    assert renewal.main(["--list"]) == 0
    assert capsys.readouterr().out == "all printed numbers are of this code\n"


def test_only_what_changed_is_measured_again(renewal: ModuleType, tmp_path: Path) -> None:
    path = write_records(tmp_path / "r.jsonl", ("sca joint", "lpmt candidates"))
    jobs = {" ".join(job.words): job for job in renewal.list_remaining(path, "DIR", [])}
    names = sorted(job.words[0] for job in jobs.values())
    twice = ["accuracy", "defaults"]
    assert names == sorted([*twice, *twice, "candidates", "memory", "paper", "scale", "speed", "stores"])
    assert "speed --data DIR --parts search,memory --methods sca" in jobs
    assert "memory --methods sca" in jobs
    joint, candidates = (
        next(job.words for words, job in jobs.items() if f"--modes {mode}" in words) for mode in ("joint", "candidates")
    )
    assert joint[-2:] == ["--methods", "sca"]
    assert candidates[-2:] == ["--methods", "lpmt"]
    assert [job.words[0] for job in renewal.list_remaining(path, "DIR", ["speed", "service"])] == ["speed"]


def test_what_was_never_measured_is_measured(renewal: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for name in ("caltech101_pyretri", "caltech101_mine"):
        np.savez(tmp_path / "data" / f"{name}.npz", x=np.eye(4), label=np.arange(4), is_query=np.arange(4) < 2)
    path = write_records(tmp_path / "r.jsonl", complete=False)
    jobs = renewal.list_remaining(path, str(tmp_path / "data"), [])
    assert [job.words[0] for job in jobs] == ["paper", "accuracy"]
    paper, accuracy = jobs
    assert paper.missing == ("caltech101_pyretri", PUBLISHED)
    assert "pyretri" in paper.words[paper.words.index("--features") + 1].split(",")
    assert accuracy.words[-2:] == ["--methods", PUBLISHED]
    assert {"roxford5k", "lfw"} <= set(accuracy.words[accuracy.words.index("--sets") + 1].split(","))
    assert renewal.format_job(accuracy).endswith(f"(never measured: {', '.join(accuracy.missing)})")
    assert renewal.list_remaining(write_records(tmp_path / "r.jsonl"), str(tmp_path / "data"), []) == []


def test_every_command_is_understood(renewal: ModuleType, tmp_path: Path) -> None:
    import typer

    from kinrank_bench.commands import app

    command: Any = typer.main.get_command(app)
    published = tmp_path / "r.jsonl"
    published.write_text((ROOT / "benchmarks" / "results.jsonl").read_text("utf-8"))
    for job in renewal.list_jobs(renewal.read(tmp_path), "DIR"):
        name, *words = job.words
        command.commands[name].make_context(name, words)


def test_it_continues_where_it_stopped(
    renewal: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_records(tmp_path / "r.jsonl", ("lpmt candidates", "sca joint"))
    monkeypatch.setattr(renewal, "RESULTS", path)
    monkeypatch.setattr(renewal.subprocess, "run", lambda *arguments, **options: None)  # does not write the pages
    ran: list[str] = []

    def measure(job: Any, results: Path) -> bool:
        """Append the newest record of the benchmark again, of this code; the second benchmark is interrupted."""
        ran.append(job.words[0])
        if len(ran) == 2:
            raise KeyboardInterrupt
        if job.words[0] == "memory":
            return False
        records = [json.loads(line) for line in results.read_text().splitlines()]
        record = [record for record in records if record["bench"] == job.words[0]][-1]
        fresh = {**record, "date": "2099", "fingerprints": fingerprint_record(record["bench"], record)}
        results.write_text(results.read_text() + json.dumps(fresh) + "\n")
        return True

    monkeypatch.setattr(renewal, "run_job", measure)
    assert renewal.main(["candidates", "memory"]) == 130
    assert "the same command continues from here" in capsys.readouterr().err
    assert renewal.main(["candidates", "memory"]) == 1
    assert ran == ["candidates", "memory", "memory"]
    said = capsys.readouterr().out
    assert "failed after" in said
    assert said.splitlines()[-2].startswith("remains: kinrank bench memory --methods sca")
    assert said.splitlines()[-1] == "1 command remains"
