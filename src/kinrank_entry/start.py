"""Start of the command `kinrank`. Importing this module installs the handler for Ctrl-C, so only the command does."""

# `signal` itself would import `enum`, which takes milliseconds
import _signal  # type: ignore[import-not-found]
import atexit
import gc

from kinrank_entry import exit_at_once

# SIGINT may also be ignored, as in background jobs of a shell, or handled by a caller: then it stays as it is.
if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, exit_at_once)


def main() -> None:
    """Run the command `kinrank`."""
    atexit.register(gc.freeze)  # nothing is collected at the end: after compilation that takes a second
    from kinrank.cli.streams import replace_closed_streams

    replace_closed_streams()
    from kinrank.cli.app import app

    app(prog_name="kinrank")
