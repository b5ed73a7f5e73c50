"""A question of the page -> the lines of Python that ask the same of the service."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinrank.web.asked.comparing import Compared


def python_lines(found: Compared, address: str) -> str:
    """A program that prints the ids of the same results. Everything in it is written by `repr`: no id can be code."""
    asked, (kind, value) = found.asked, found.asked.query
    vector = []
    if kind == "vector":
        numbers = ", ".join(map(str, np.asarray(value, np.float32).ravel()))
        vector = [f"vector = [{numbers}]"]
    who = {"item": f"ids=[{value!r}]", "query": f"numbers=[{value!r}]", "vector": "queries=[vector]"}[kind]
    given: dict[str, Any] = {}
    if not found.online:
        given = {"method": asked.method, "parameters": asked.parameters, "candidates": asked.candidates}
    if found.marks_count:
        given |= {"positives": asked.positives, "negatives": asked.negatives}
    more = "".join(f", {name}={one!r}" for name, one in given.items() if one not in (None, {}, []))
    return "\n".join(
        [
            "import kinrank as kr",
            "",
            f"client = kr.Client({address!r})",
            *vector,
            f"ranking = client.search({who}, k={asked.k}{more})",
            "print(ranking.ids[0])",
            "",
        ]
    )
