"""Fit a re-ranker on labels of some classes and use it on others; ranking needs no torch."""

import tempfile
from pathlib import Path

import numpy as np

import kinrank as kr

rng = np.random.default_rng(0)
labels = np.repeat(np.arange(40), 20)
rows = rng.normal(size=(40, 32))[labels] + rng.normal(size=(800, 32))
learn, judge = labels < 20, labels >= 20  # evaluated on other classes

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "ssr.npz"
    ssr = kr.fit(
        kr.methods.SSR(), rows[learn], labels[learn], path=path, top=40, hidden=128, lists=400
    )  # needs the extra torch
    truth = kr.Truth.from_labels(labels[judge])
    plain, learned = (kr.evaluate(kr.rerank(None, rows[judge], method), truth, ["mAP"]) for method in ("none", ssr))
print(f"without: {plain['mAP']!r}\nlearned: {learned['mAP']!r}\n{kr.evaluation.compare_scores(plain, learned, 'mAP')}")
