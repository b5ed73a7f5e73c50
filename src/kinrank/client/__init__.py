"""A program -> a `kinrank serve` that runs elsewhere, with the words of a Manifold; standard library and numpy only."""

from kinrank.client.client import Client, Receipt, Scored
from kinrank.client.line import Busy

__all__ = ["Busy", "Client", "Receipt", "Scored"]
