"""LPMT with several shares of the direct comparison, on every set -> the table in docs/decisions/0009.

python benchmarks/direct.py --data FOLDER [--sets roxford5k,coil20]
"""

from __future__ import annotations

import argparse
import sys

import kinrank
from kinrank.datasets.benchmark import BENCHMARKS, load

CHANGES: list[dict[str, float]] = [
    {},
    *({"direct": share} for share in (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)),
    {"direct_k": 80},
    {"direct_k": 320, "direct_support": 256},
    {"direct_mu": 0.05},
    {"direct_support": 64},
    {"theta": 0.3},
    {"theta": 0.5},
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--sets", default=",".join(name for name in BENCHMARKS if name != "caltech101"))
    arguments = parser.parse_args()
    sets = [load(name, arguments.data) for name in arguments.sets.split(",")]
    columns = [(bench, label) for bench in sets for label in bench.truths if label != "easy"]
    print("| mAP / R@1 | " + " | ".join(f"{bench.name} {label}" for bench, label in columns) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for change in CHANGES:
        method = kinrank.LPMT(**change)  # type: ignore[arg-type]
        rankings = {bench.name: kinrank.rerank(bench.queries, bench.gallery, method) for bench in sets}
        cells = []
        for bench, label in columns:
            scores = kinrank.evaluate(rankings[bench.name], bench.truths[label], ["mAP", "R@1"], resamples=0)
            cells.append(f"{100 * scores['mAP'].mean:.1f} / {100 * scores['R@1'].mean:.1f}")
        changed = ", ".join(f"{key}={value}" for key, value in change.items()) or "as it comes"
        print(f"| {changed} | " + " | ".join(cells) + " |")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
