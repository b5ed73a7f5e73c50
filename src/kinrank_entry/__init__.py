"""Entry point of the command `kinrank`. It imports nothing slow, so that Ctrl-C is handled from the first moment on.

Importing `kinrank` takes about half a second. This package is not part of it, because Python imports a package before
its modules: a handler inside `kinrank` would come too late.
"""

from __future__ import annotations

from kinrank_entry.interrupts import exit_on_interrupt
from kinrank_entry.streams import replace_closed_streams


def prepare() -> None:
    """Handle Ctrl-C and closed standard streams. Calling it twice does no harm."""
    exit_on_interrupt()
    replace_closed_streams()


def main() -> None:
    """Run the command `kinrank`."""
    prepare()
    from kinrank.cli.app import app

    app(prog_name="kinrank")
