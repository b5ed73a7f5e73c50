"""Errors of commands: one sentence and exit code 2 for a mistake of the user, a traceback and exit code 1 for a bug."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from typer import Abort, Exit
from typer.core import TyperGroup

from kinrank.cli.bench import load_command
from kinrank.cli.streams import output_was_lost
from kinrank.errors import EXPECTED_ERRORS, InputError, Spelling, replace_references, spell_in_python
from kinrank.interrupts import allow_interrupt
from kinrank_entry import INTERRUPTED, MESSAGE

BUG_EXIT_CODE, MISTAKE_EXIT_CODE = 1, 2
BROKEN_PIPE_EXIT_CODE = 141  # as shells report it for other tools when their reader, such as `head`, stops early
REPORT_LABELS = ("issues", "source")  # of the addresses in pyproject.toml, the best one first
FALSE_WORDS = ("", "0", "no", "false")  # values of KINRANK_TRACEBACK that switch it off
COMMANDS_ELSEWHERE = ("bench",)  # in other packages
OTHER_NAMES = {  # parameter of the library -> that of a command, where the two differ
    "k": "neighbours",
    "difficulty": "protocol",
    "features": "gallery",
    "kind": "store",
    "output": "target",
}
OTHER_VALUES = {  # parameter and value -> what to type
    ("changes", "True"): "`kinrank build`",
    ("labels", "pseudo"): "--pseudo-labels",
    ("on_error", "skip"): "no --strict",
}


class CommandGroup(TyperGroup):
    """A group of commands that ends with one line for a mistake of the user, instead of a traceback or a box."""

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

        if not standalone_mode:
            return work()
        words = sys.argv[1:] if args is None else args
        return sys.exit(run_command(work, flag_spelling(find_command(self, words))))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command by its name; `bench` from the package kinrank-bench, if it is installed."""
        found = load_command(cmd_name) if cmd_name in COMMANDS_ELSEWHERE else None
        return found or super().get_command(ctx, cmd_name)

    def make_context(self, *args: Any, **options: Any) -> Any:
        """Parse the command line; typer imports much for that."""
        with _report_interrupt():
            return super().make_context(*args, **options)

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        with _report_interrupt():
            return super().invoke(ctx)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands in `--help` under the headings they were registered with."""
        width = max(map(len, self.commands), default=0)
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, command in self.commands.items():
            heading = getattr(command, "rich_help_panel", None) or "Commands"
            line = command.get_short_help_str(formatter.width - 6 - width)
            sections.setdefault(heading, []).append((name.ljust(width), line))
        for heading, lines in sections.items():
            with formatter.section(heading):
                formatter.write_dl(lines)


@contextlib.contextmanager
def _report_interrupt() -> Iterator[None]:
    """End the command on Ctrl-C, because versions of typer treat a KeyboardInterrupt differently."""
    try:
        yield
    except KeyboardInterrupt:
        print(MESSAGE, file=sys.stderr)
        raise Exit(INTERRUPTED) from None


def run_command(work: Callable[[], Any], spell: Spelling = spell_in_python) -> int:
    """Run a command and return its exit code.

    Only exceptions of kinrank.errors, usage errors of typer and errors of the operating system are mistakes of the
    user. Any other exception is a bug: it is printed with its traceback. `spell` writes parameters as flags.
    With KINRANK_TRACEBACK=1 mistakes are raised, too.
    """
    try:
        with allow_interrupt(), warnings.catch_warnings():
            warnings.showwarning = _print_warning
            code = work()
            sys.stdout.flush()
        code = code if isinstance(code, int) else 0
        return code or _report_lost_output()
    except BrokenPipeError:
        return _discard_output()
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # typer turns it into an exit of its own
            return _discard_output()
        raise
    except (KeyboardInterrupt, Abort):
        print(MESSAGE, file=sys.stderr)
        return INTERRUPTED
    except Exception as error:
        if not is_mistake(error):
            return _report_bug(error)
        if os.environ.get("KINRANK_TRACEBACK", "").lower() not in FALSE_WORDS:
            raise
        print(f"kinrank: error: {format_error(error, spell)}", file=sys.stderr)
        return MISTAKE_EXIT_CODE


def is_mistake(error: Exception) -> bool:
    """Return True for an error that the user can correct, False for a bug in kinrank."""
    usage = hasattr(error, "format_message")  # of typer: an unknown option, a missing value
    return usage or isinstance(error, EXPECTED_ERRORS)


def format_error(error: Exception, spell: Spelling = spell_in_python) -> str:
    """Write the message of an error on one line, with parameters as `spell` writes them."""
    if hasattr(error, "format_message"):
        text = str(error.format_message())
    elif isinstance(error, InputError):
        text = error.compose(spell)
    elif isinstance(error, OSError) and error.strerror:
        text = error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
    else:
        text = replace_references(str(error), spell)
    return " ".join(text.split()) or type(error).__name__


def spell_reasons(reasons: Mapping[str, str], command: Any) -> dict[str, str]:
    """Write parameters in the reasons why methods refused as flags of the command."""
    spell = flag_spelling(command)
    return {name: replace_references(reason, spell) for name, reason in reasons.items()}


def exit_if_failed(failed: Mapping[str, str]) -> None:
    """End the command with exit code 1 if an unexpected exception, which is a bug, stopped some methods."""
    if failed:
        address = find_report_address()
        print(f"kinrank: {', '.join(failed)} failed, which is a bug; please report it: {address}", file=sys.stderr)
        raise Exit(BUG_EXIT_CODE)


def rename_parameter(error: InputError, old: str, new: str) -> None:
    """Make an error name the parameter `new` instead of `old`, for a command that has flags for several of them."""
    if error.parameter == old:
        error.parameter = new
    for part in ("problem", "allowed", "remedy"):
        text = getattr(error, part)
        if text is not None:
            setattr(error, part, re.sub(rf"`{old}(?=[`=])", f"`{new}", text))


def find_command(group: Any, words: Sequence[str]) -> Any:
    """Return the command that these words of the command line call, or the group itself."""
    command = group
    for word in words:
        if not hasattr(command, "commands"):
            break
        command = command.get_command(None, word) or command
    return command


def flag_spelling(command: Any) -> Spelling:
    """Return a function that writes parameters of the library as flags of this command.

    Flags come from the declaration of the command. Commands that pass unknown flags on, such as `kinrank rerank`, also
    have the parameters of all methods. Other parameters are written as in Python.

    Example:
        >>> flag_spelling(find_command(group, ["rerank"]))("max_memory", "'2GB'")
        "--max-memory '2GB'"
    """
    options = {option.name: option for option in getattr(command, "params", ()) if _long_flags(option)}

    def spell(name: str, value: str | None) -> str:
        if (name, (value or "").strip("'\"")) in OTHER_VALUES:
            return OTHER_VALUES[name, (value or "").strip("'\"")]
        option = options.get(name) or options.get(OTHER_NAMES.get(name, ""))
        if option is None:
            is_flag = name.startswith("--") or name.removeprefix("method_") in _method_parameters(command)
            flag = name if name.startswith("--") else f"--{name.replace('_', '-')}"
            return _with_value(flag, value) if is_flag else spell_in_python(name, value)
        if getattr(option, "is_flag", False) and value in ("True", "False"):
            chosen = option.opts if value == "True" else option.secondary_opts
            return str(chosen[0]) if chosen else f"no {_long_flags(option)[0]}"
        return _with_value(_long_flags(option)[0], value)

    return spell


def _long_flags(option: Any) -> list[str]:
    return [word for word in option.opts if word.startswith("--")]


def _with_value(flag: str, value: str | None) -> str:
    return flag if value is None else f"{flag} {value}"


def _method_parameters(command: Any) -> set[str]:
    """List the parameters that the command takes as flags without declaring them."""
    if not (getattr(command, "context_settings", None) or {}).get("ignore_unknown_options"):
        return set()
    from kinrank.learned import IMPORTS, RECIPES
    from kinrank.methods import METHODS

    kinds: list[Any] = [*METHODS.values(), *RECIPES.values(), *IMPORTS.values()]
    return {parameter.name for kind in kinds for parameter in kind.parameters()}


def _report_bug(error: Exception) -> int:
    """Print the traceback and where to report it."""
    traceback.print_exception(error)
    print(f"kinrank: this is a bug; please report the lines above: {find_report_address()}", file=sys.stderr)
    return BUG_EXIT_CODE


def find_report_address() -> str:
    """Return the address of the issue tracker, or else of the source code, as declared in pyproject.toml."""
    from importlib.metadata import PackageNotFoundError, metadata

    try:
        entries = metadata("kinrank").get_all("Project-URL") or []
    except PackageNotFoundError:
        entries = []
    addresses = {label.strip().lower(): url.strip() for label, _, url in (entry.partition(",") for entry in entries)}
    return next((addresses[label] for label in REPORT_LABELS if label in addresses), "see the README of kinrank")


def _print_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning of the library on one line, without the place in the code that raised it."""
    print(f"kinrank: {' '.join(str(message).split())}", file=sys.stderr)


def _discard_output() -> int:
    """Send the rest of the output to the null device, because its reader has stopped."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno() if sys.__stdout__ else 1)
    return BROKEN_PIPE_EXIT_CODE


def _report_lost_output() -> int:
    """Return 2 and print a sentence if output went to a closed standard output; return 0 otherwise."""
    if not output_was_lost():
        return 0
    lost = "standard output is closed and what was printed is lost"
    print(f"kinrank: error: {lost}; redirect it to a file or to /dev/null", file=sys.stderr)
    return MISTAKE_EXIT_CODE
