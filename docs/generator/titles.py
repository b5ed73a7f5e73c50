"""The names of the published sets, as people write them."""

from __future__ import annotations

TITLES = {
    "roxford5k": "ROxford5k",
    "caltech101": "Caltech101",
    "coil20": "COIL-20",
    "mpeg7": "MPEG-7",
    "orl": "ORL",
    "cranfield": "Cranfield (text)",
    "market1501": "Market-1501",
    "banking77": "Banking77 (text)",
    "mousebladder": "mouse bladder (cells)",
    "esc50": "ESC-50 (sounds)",
    "omniglot": "Omniglot",
    "lfw": "LFW",
}
