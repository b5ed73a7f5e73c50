"""What went wrong -> one line on stderr and an exit code: 2 for a user's mistake, 130 for Ctrl-C."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from typer import Abort
from typer.core import TyperGroup

MISTAKES = (ValueError, OSError, MemoryError, ImportError)


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

        return sys.exit(guarded(work)) if standalone_mode else work()

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


def guarded(work: Callable[[], Any]) -> int:
    """The exit code of the work. KINRANK_TRACEBACK=1 lets a mistake through with its traceback."""
    try:
        code = work()
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (KeyboardInterrupt, Abort):
        return 130
    except Exception as error:
        usage = hasattr(error, "format_message")  # typer's own: an unknown option, a missing value
        if not (usage or isinstance(error, MISTAKES)) or os.environ.get("KINRANK_TRACEBACK"):
            raise
        print(f"kinrank: error: {sentence(error)}", file=sys.stderr)
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
