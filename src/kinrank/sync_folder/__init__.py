"""Synchronisation of a Manifold with a folder of pictures or texts whose files are added, changed and removed."""

from __future__ import annotations

from kinrank.errors import EncoderMismatchError
from kinrank.sync_folder.ledger import Ledger
from kinrank.sync_folder.sync import SyncResult, sync_source
from kinrank.sync_folder.targets import FolderTarget, ServiceTarget, Target

__all__ = ["EncoderMismatchError", "FolderTarget", "Ledger", "ServiceTarget", "SyncResult", "Target", "sync_source"]
