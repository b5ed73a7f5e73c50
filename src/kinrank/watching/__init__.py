"""A folder of pictures, or texts -> a Manifold that follows it as files come and go."""

from __future__ import annotations

from kinrank.watching.following import Followed, OtherEncoder, follow
from kinrank.watching.ledger import Ledger
from kinrank.watching.targets import FolderTarget, ServiceTarget, Target

__all__ = ["FolderTarget", "Followed", "Ledger", "OtherEncoder", "ServiceTarget", "Target", "follow"]
