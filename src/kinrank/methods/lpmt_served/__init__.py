"""LPMT, served: what is kept of a gallery, how queries are answered, how it changes. Imported when it is first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinrank.deferred import modules_of

if TYPE_CHECKING:
    from kinrank.methods.lpmt_served import offline as offline
    from kinrank.methods.lpmt_served import serving as serving

__getattr__ = modules_of("kinrank.methods.lpmt_served", "offline", "serving")
