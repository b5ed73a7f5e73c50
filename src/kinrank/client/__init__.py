"""Client of a remote `kinrank serve`, with the methods of a Manifold. Needs only numpy and the standard library."""

from kinrank.client.client import Client
from kinrank.client.json_messages import Receipt, ScoredVector, ServiceBusyError

__all__ = ["Client", "Receipt", "ScoredVector", "ServiceBusyError"]
