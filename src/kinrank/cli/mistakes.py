"""What went wrong -> one line on stderr and an exit code: 2 for a user's mistake, 130 for Ctrl-C."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from typer import Abort, Exit
from typer.core import TyperGroup

from kinrank.cli.streams import output_was_lost
from kinrank.cli.wording import in_flags
from kinrank.interrupts import interruptible
from kinrank_entry import INTERRUPTED, MESSAGE

MISTAKES = (ValueError, OSError, MemoryError, ImportError)
OFF = ("", "0", "no", "false")  # what KINRANK_TRACEBACK may say for no
READER_LEFT = 141  # what a shell says of other tools whose reader, such as `head`, has seen enough


class AsSaid(ValueError):
    """A sentence that is not about flags, such as one about the options in a URL."""


class Commands(TyperGroup):
    """A group of commands whose mistakes end in one line instead of a traceback or a box."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        main = super().main

        def work() -> Any:
            return main(args, prog_name, complete_var, False, windows_expand_args, **extra)

        words = sys.argv[1:] if args is None else args
        return sys.exit(guarded(work, lambda text: in_flags(text, self, words))) if standalone_mode else work()

    def invoke(self, ctx: Any) -> Any:
        """Run the command; Ctrl-C ends it here, because versions of typer treat a KeyboardInterrupt differently."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            print(MESSAGE, file=sys.stderr)
            raise Exit(INTERRUPTED) from None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The list of commands in `--help`, under the headings they were registered with."""
        width = max(map(len, self.commands), default=0)
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, command in self.commands.items():
            heading = getattr(command, "rich_help_panel", None) or "Commands"
            line = command.get_short_help_str(formatter.width - 6 - width)
            sections.setdefault(heading, []).append((name.ljust(width), line))
        for heading, lines in sections.items():
            with formatter.section(heading):
                formatter.write_dl(lines)


def guarded(work: Callable[[], Any], worded: Callable[[str], str] = str) -> int:
    """The exit code of the work. KINRANK_TRACEBACK=1 lets a mistake through with its traceback.

    `worded` turns what the library says, in the words of Python, into those of the command line.
    """
    try:
        with interruptible(), warnings.catch_warnings():
            warnings.showwarning = _remark
            code = work()
            sys.stdout.flush()
        code = code if isinstance(code, int) else 0
        return code or _lost_output()
    except BrokenPipeError:
        return _reader_left()
    except SystemExit as ended:
        if isinstance(ended.__context__, BrokenPipeError):  # typer makes it an end of its own
            return _reader_left()
        raise
    except (KeyboardInterrupt, Abort):
        print(MESSAGE, file=sys.stderr)
        return INTERRUPTED
    except Exception as error:
        usage = hasattr(error, "format_message")  # typer's own: an unknown option, a missing value
        if not (usage or isinstance(error, MISTAKES)) or os.environ.get("KINRANK_TRACEBACK", "").lower() not in OFF:
            raise
        said = sentence(error)
        print(f"kinrank: error: {said if usage or isinstance(error, AsSaid) else worded(said)}", file=sys.stderr)
        return 2


def _remark(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: Any = None,
    line: str | None = None,
) -> None:
    """A warning of the library as a line that people read; where it was raised is of no use to them."""
    print(f"kinrank: {' '.join(str(message).split())}", file=sys.stderr)


def _reader_left() -> int:
    """Nobody reads what is still to be written: it goes nowhere, without a word."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno() if sys.__stdout__ else 1)
    return READER_LEFT


def _lost_output() -> int:
    """Exit code 2 and a sentence if something was printed to a closed standard output, else 0."""
    if not output_was_lost():
        return 0
    lost = "standard output is closed and what was printed is lost"
    print(f"kinrank: error: {lost}; redirect it to a file or to /dev/null", file=sys.stderr)
    return 2


def sentence(error: Exception) -> str:
    """The message of an error on one line."""
    if hasattr(error, "format_message"):
        text = str(error.format_message())
    elif isinstance(error, OSError) and error.strerror:
        text = error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
    else:
        text = str(error)
    return " ".join(text.split()) or type(error).__name__
