"""Words on a command line -> one call of the library -> text or JSON. Thin: no arithmetic lives here."""

from __future__ import annotations

from kinrank_entry import main as main
