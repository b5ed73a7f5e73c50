"""Vector stores: the base class `Store`, and one module per engine that imports its library when it is used."""

from kinrank.stores.array import ArrayStore
from kinrank.stores.base import Store

__all__ = ["ArrayStore", "Store"]
