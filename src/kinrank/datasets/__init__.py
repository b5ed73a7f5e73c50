"""Sets to measure on: generated ones with known answers, and readers of published ones.

| file | family |
|---|---|
| `landmarks` | revisited Oxford and Paris: easy, medium, hard; any number of distractors behind the gallery |
| `splits` | classes: a published list of queries and gallery, or every item queries the others |
| `cameras` | persons across cameras: pictures that the query's own camera took are ignored |
| `judged` | texts with TREC judgements |
| `turntable` | toys, drawn on the spot |
| `finding` | a folder -> the sets and features in it, by the names of the files |
| `benchmark` | the sets that kinrank's own numbers come from, by name |
| `published` | what is known of a published set: counts, checksums, where its files come from |
| `base`, `distractors` | what all readers return; a gallery and its distractors as one file |
"""

from __future__ import annotations

from kinrank.datasets.base import Benchmark
from kinrank.datasets.cameras import persons
from kinrank.datasets.finding import Found, found, missing
from kinrank.datasets.judged import texts
from kinrank.datasets.landmarks import revisited
from kinrank.datasets.published import PUBLISHED, NotAsPublished, Published
from kinrank.datasets.splits import class_split, leave_one_out

__all__ = [
    "PUBLISHED",
    "Benchmark",
    "Found",
    "NotAsPublished",
    "Published",
    "class_split",
    "found",
    "leave_one_out",
    "missing",
    "persons",
    "revisited",
    "texts",
]
