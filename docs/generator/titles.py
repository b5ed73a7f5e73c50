"""The usual names of the published sets, and their features."""

from __future__ import annotations

from collections.abc import Iterable

from kinrank_bench.datasets.benchmark import BENCHMARKS

TITLES = {
    "roxford5k": "ROxford5k",
    "caltech101": "Caltech101",
    "coil20": "COIL-20",
    "mpeg7": "MPEG-7",
    "orl": "ORL",
    "cranfield": "Cranfield (text)",
    "market1501": "Market-1501 (part)",
    "banking77": "Banking77 (text)",
    "mousebladder": "mouse bladder (cells)",
    "esc50": "ESC-50 (sounds)",
    "omniglot": "Omniglot",
    "lfw": "LFW",
    "scifact": "SciFact (text)",
    "flickr8k": "Flickr8k (captions to images)",
    "tatoeba": "Tatoeba (part, text)",
    "caltech101_pyretri": "Caltech101 (PyRetri)",
    "cub200_pyretri": "CUB-200 (PyRetri)",
    "roxford5k_rmac362": "ROxford5k (R-MAC)",
}


def describe_features(names: Iterable[str]) -> str:
    """A sentence with the features of these sets: the numbers depend on them."""
    found: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        if name in BENCHMARKS:
            found.setdefault(BENCHMARKS[name].features, []).append(TITLES[name])
    text = "; ".join(f"{', '.join(titles)}: {features}" for features, titles in found.items())
    return f"Features: {text}. Stronger features have higher scores without re-ranking."
