"""Readers of published sets.

| file | contents |
|---|---|
| `readers` | landmarks (easy, medium, hard; with distractors), classes, persons across cameras, texts, right pairs |
| `feature_folders` | sets and features in a folder, by the names of the files |
| `benchmark` | the sets behind kinrank's own numbers, by name |
| `set_facts` | counts, checksums and sources of published sets |
| `set_display` | published sets for `kinrank serve` and `kinrank report` |
| `base`, `distractors` | the type that readers return; a gallery and its distractors as one file |
"""

from __future__ import annotations

from kinrank.errors import BenchmarkMismatchWarning
from kinrank_bench.datasets.base import Benchmark
from kinrank_bench.datasets.feature_folders import FeatureSet, describe_missing, find_feature_sets
from kinrank_bench.datasets.readers import (
    load_class_split,
    load_leave_one_out,
    load_pairs,
    load_persons,
    load_revisited,
    load_texts,
)
from kinrank_bench.datasets.set_facts import PUBLISHED, PublishedSet

__all__ = [
    "PUBLISHED",
    "Benchmark",
    "BenchmarkMismatchWarning",
    "FeatureSet",
    "PublishedSet",
    "describe_missing",
    "find_feature_sets",
    "load_class_split",
    "load_leave_one_out",
    "load_pairs",
    "load_persons",
    "load_revisited",
    "load_texts",
]
