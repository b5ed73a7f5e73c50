"""Entry point of the command `kinrank`, which handles Ctrl-C before the slow imports start.

Importing `kinrank` takes about half a second. This package is not part of it, because Python imports a package before
its modules: a handler inside `kinrank` would come too late. This file and `start` import only what Python itself has
loaded already, so that the handler is there some milliseconds after Python has started.
"""

import os

INTERRUPTED = 130  # exit code after Ctrl-C
MESSAGE = "kinrank: interrupted"


def exit_at_once(number: int, frame: object) -> None:
    """Signal handler that ends the process without an exception, which an import could swallow or wrap.

    It is installed only while there is nothing to clean up: before a command starts, and after it has finished.
    """
    try:
        os.write(2, f"{MESSAGE}\n".encode())
    finally:
        os._exit(INTERRUPTED)
