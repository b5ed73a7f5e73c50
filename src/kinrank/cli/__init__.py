"""Words on a command line -> one call of the library -> text or JSON. Thin: no arithmetic lives here."""

from __future__ import annotations

from kinrank.cli.app import app


def main() -> None:
    """The command `kinrank`."""
    app(prog_name="kinrank")
