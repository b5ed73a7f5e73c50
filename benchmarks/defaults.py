"""Tables of docs/decisions/0001 and 0009: LPMT with one parameter changed at a time, on every set.

python benchmarks/defaults.py --data FOLDER [--sets roxford5k,coil20]
"""

from __future__ import annotations

import argparse
import sys

import kinrank
from kinrank_bench.datasets.benchmark import BENCHMARKS, load
from kinrank_bench.paper.lpmt_ablation import LPMTAblation

CHANGES: list[dict[str, object]] = [
    {},
    {
        "neighbors": "euclidean",
        "share": 0,
        "rho": 1,
        "gamma": 3,
        "theta": 0,
        "scale": "row",
        "sigma": 0.3,
        "kappa": 2,
    },
    {"rho": 1},
    {"gamma": 2},
    {"gamma": 3},
    {"gamma": 4},
    {"share": 0},
    {"share": 1},
    {"neighbors": "euclidean"},
    {"k1": 40},
    {"k1": 80},
    {"k2": 4},
    {"k2": 7},
    {"kappa": 2},
    {"kappa": 4},
    {"theta": 0},
    {"theta": 0.3},
    {"theta": 0.6},
    {"sigma": 0.7},
    {"scale": "row", "sigma": 0.3},
    {"mu": 0.5},
    {"support": 24},
    {"support": 64},
    {"tolerance": 1e-4},
    {"transport": "exact"},
    {"similarity": "bsd"},
    {"region": "knn"},
    *({"direct": share} for share in (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)),
    {"direct_k": 320, "direct_support": 256},
    {"direct_mu": 0.05},
    {"direct_support": 64},
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--sets", default=",".join(BENCHMARKS))
    arguments = parser.parse_args()
    sets = [load(name, arguments.data) for name in arguments.sets.split(",")]
    columns = [
        (bench.name, label, measure)
        for bench in sets
        for label in bench.truths
        if label != "easy"
        for measure in bench.measures[: 2 if bench.name == "caltech101" else 1]
    ]
    print("| change | " + " | ".join(f"{name} {label} {measure}" for name, label, measure in columns) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for change in CHANGES:
        known = {declared.name for declared in kinrank.LPMT.parameters()}
        kind = kinrank.LPMT if known >= set(change) else LPMTAblation
        method = kind(**change)  # type: ignore[arg-type]
        row = []
        for bench in sets:
            ranking = kinrank.rerank(bench.queries, bench.gallery, method)
            for name, label, measure in columns:
                if name == bench.name:
                    score = kinrank.evaluate(ranking, bench.truths[label], [measure], resamples=10)[measure]
                    row.append(f"{100 * score.mean:.2f}")
        changed = ", ".join(f"{key}={value}" for key, value in change.items()) or "none: the defaults"
        print(f"| {changed} | " + " | ".join(row) + " |")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
