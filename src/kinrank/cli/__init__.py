"""Words on a command line -> one call of the library -> text or JSON. Thin: no arithmetic lives here."""

from __future__ import annotations


def main() -> None:
    """Run the command `kinrank`."""
    from kinrank_entry.start import main as start

    start()
