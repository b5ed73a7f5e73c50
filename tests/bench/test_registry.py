"""Declared benches: every record can be shown, and commands have the flags of their functions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest

from kinrank.errors import InputError
from kinrank_bench.commands import list_flags
from kinrank_bench.declaration import Option
from kinrank_bench.registry import BENCHES, format_record

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results.jsonl"


@pytest.mark.parametrize("name", [name for name in BENCHES if name != "paper"])
def test_stored_records_can_be_printed(name: str) -> None:
    records = [json.loads(line) for line in RESULTS.read_text("utf-8").splitlines()]
    found = [record for record in records if record["bench"] == name]
    assert found
    for record in found:
        lines = format_record(record).splitlines()
        assert lines[-1] == f"kinrank {record['version']}, {record['machine']['threads']} threads, {record['date']}"
        assert len(lines) > 3


@dataclass(frozen=True)
class Choice:
    store: Annotated[str, Option("Its store.")] = "flat"
    probes: int = 3


def measure(
    folder: Annotated[str | None, Option("Its folder.", "data")] = None,
    sizes: Annotated[Sequence[int], Option("Its sizes.", least=10)] = (100, 200),
    powers: Annotated[Sequence[float] | None, Option("Its powers.")] = None,
    choice: Choice = Choice(),
    progress: Any = None,
) -> None:
    """Only parameters with an Option are flags."""


def test_flags_are_the_declared_parameters() -> None:
    flags = {flag.name: flag for flag in list_flags(measure)}
    assert list(flags) == ["data", "sizes", "powers", "store"]
    assert [flag.group for flag in flags.values()] == ["", "", "", "choice"]
    assert [flag.declare().default for flag in flags.values()] == [None, "100,200", None, "flat"]
    assert flags["sizes"].parse("10,20") == [10, 20]
    assert flags["sizes"].parse("") == []
    assert flags["powers"].parse("0.25,1") == [0.25, 1.0]
    assert flags["powers"].parse(None) is None
    assert flags["store"].parse("ivf") == "ivf"


@pytest.mark.parametrize(
    ("flag", "word", "message"),
    [
        ("sizes", "5", "--sizes '5' is not allowed; give whole numbers >= 10"),
        ("sizes", "ten", "--sizes 'ten' is not allowed; give whole numbers >= 10"),
        ("powers", "half", "--powers 'half' is not allowed; give numbers"),
    ],
)
def test_wrong_words_of_a_list(flag: str, word: str, message: str) -> None:
    flags = {entry.name: entry for entry in list_flags(measure)}
    with pytest.raises(InputError, match=message):
        flags[flag].parse(word)
