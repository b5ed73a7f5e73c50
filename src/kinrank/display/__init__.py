"""Display of items and queries: names, labels, texts and pictures, as a page shows them."""

from kinrank.display.display import Display

__all__ = ["Display"]
