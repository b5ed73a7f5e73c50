"""A program -> a `kinrank serve` that runs elsewhere, with the words of a Manifold; standard library and numpy only."""

from kinrank.client.answers import Busy, Receipt, Scored
from kinrank.client.client import Client

__all__ = ["Busy", "Client", "Receipt", "Scored"]
