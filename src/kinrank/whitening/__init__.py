"""Vectors -> vectors whose strong directions count less: whitening, by variance or by matching pairs."""

from kinrank.whitening.whitening import Whitening, whiten

__all__ = ["Whitening", "whiten"]
