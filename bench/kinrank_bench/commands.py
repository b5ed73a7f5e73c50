"""`kinrank bench`: a command per bench, made from its declaration in `kinrank_bench.registry`.

The command line of kinrank finds `app` through the entry point in `bench/pyproject.toml`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

import typer

from kinrank.cli.encoder_options import EncoderOptions
from kinrank.cli.input_files import split_commas
from kinrank.cli.option_groups import OptionGroup, add_command, option
from kinrank.cli.output import OutputOptions, check_paths_differ, print_json
from kinrank.errors import InputError
from kinrank.files.atomic import atomic_write, check_writable
from kinrank.files.user_folders import cache_folder
from kinrank_bench.accuracy import SUFFIXES
from kinrank_bench.declaration import Bench, Option, option_of
from kinrank_bench.measurement_cache import Cache
from kinrank_bench.record import Record, count_failures
from kinrank_bench.registry import BENCHES, format_record
from kinrank_entry import INTERRUPTED

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.callback(invoke_without_command=True)
def bench(context: typer.Context) -> None:
    """Measure accuracy, speed, memory and scale on this machine."""
    if context.invoked_subcommand is None:
        print(context.get_help())


class Flag(NamedTuple):
    """A flag of a command, and the parameter of a bench that it fills.

    Attributes:
        parameter: the parameter of the function, or of the dataclass that is its parameter `group`.
        kind: its type, without None; a sequence is given as words separated by commas.
    """

    parameter: str
    option: Option
    kind: Any
    default: Any
    group: str = ""

    @property
    def name(self) -> str:
        return self.option.flag or self.parameter

    @property
    def element(self) -> Any:
        """Type of the elements of a sequence; None for anything else."""
        return get_args(self.kind)[0] if get_origin(self.kind) is Sequence else None

    def declare(self) -> Parameter:
        """Return the parameter from which typer makes the option."""
        kind, default, limits = self.kind, self.default, dict[str, Any]()
        if self.element is not None:
            kind = str
            default = default and ",".join(f"{value:g}" if self.element is float else str(value) for value in default)
        elif kind in (int, float):
            limits = {"min": self.option.least, "max": self.option.most}
        option = typer.Option(f"--{self.name}", help=self.option.help, rich_help_panel="Measurement", **limits)
        given: Any = kind | None if default is None else kind
        return Parameter(self.name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[given, option])

    def parse(self, value: Any) -> Any:
        """Convert the value on the command line to that of the parameter."""
        if self.element is None or value is None:
            return value
        return [self._parse_word(word) for word in split_commas(value)]

    def _parse_word(self, word: str) -> Any:
        if self.element is int:
            least = int(self.option.least or 0)
            if not word.isdecimal() or int(word) < least:
                raise InputError(
                    f"--{self.name} {word!r} is not allowed; give whole numbers >= {least}, separated by commas"
                )
        try:
            return self.element(word)
        except ValueError:
            raise InputError(
                f"--{self.name} {word!r} is not allowed; give numbers separated by commas, such as 0.25,0.5"
            ) from None


def list_flags(function: Callable[..., Any]) -> Iterator[Flag]:
    """Yield the flags that the parameters of a function, or the fields of a dataclass, declare."""
    hints = get_type_hints(function, include_extras=True)
    for parameter in signature(function).parameters.values():
        option = option_of(hints[parameter.name])
        if option is not None:
            kind = _without_none(get_args(hints[parameter.name])[0])
            yield Flag(parameter.name, option, kind, parameter.default)
        elif is_dataclass(parameter.default):
            for flag in list_flags(type(parameter.default)):
                yield flag._replace(group=parameter.name)


def _without_none(kind: Any) -> Any:
    """Return the type without None; Path for everything that can be a path."""
    if get_origin(kind) is Sequence or isinstance(kind, type):
        return kind
    kinds = [entry for entry in get_args(kind) if entry is not type(None)]
    return Path if any(get_origin(entry) is os.PathLike for entry in kinds) else kinds[0]


class CacheOptions(OptionGroup):
    """The folder that keeps measurements."""

    title = "Cache"
    cache: Path | None = option(
        None, "Folder that stores every measurement at once. Default: the cache folder of this user."
    )
    no_cache: bool = option(False, "Measure everything again, and store nothing.")

    def open(self, scratch: Path | None) -> Cache:
        """Open the cache of measurements."""
        if self.no_cache and self.cache is not None:
            raise InputError("--cache and --no-cache exclude each other; give one of them")
        return Cache(None if self.no_cache else self.cache or cache_folder("bench"), scratch)


class RecordOptions(OutputOptions):
    """The file for the record of a bench, and the text that is printed."""

    output: Path | None = option(None, "Append the record to this .jsonl.", "--output", "-o")

    def check(self, data: Path | None) -> None:
        """Check, before the work starts, that everything can be written."""
        if self.output is not None:
            check_writable(self.output, (".jsonl",))

    def write(self, bench: Bench, record: Record) -> None:
        """Append the record to its file, if there is one, and print it as JSON or as tables."""
        if self.output is not None:
            append_line(self.output, record)
        if self.json:
            print_json(record)
        else:
            print(format_record(record))


class TableOptions(RecordOptions):
    """Output options of benches that also write their tables to a file."""

    table: Path | None = option(None, "Also write the tables to this file: .md, .tex or .csv.")

    def check(self, data: Path | None) -> None:
        super().check(data)
        if self.table is not None:
            check_writable(self.table, SUFFIXES)
            check_paths_differ(self.table, self.output)

    def write(self, bench: Bench, record: Record) -> None:
        if self.table is not None and bench.render is not None:
            with atomic_write(self.table) as file:
                file.write(bench.render(record, self.table.suffix.lower()).encode())
        super().write(bench, record)


class PageOptions(OutputOptions):
    """The folder for the files of a bench, and the file for its record."""

    output: Path = option(..., "Folder for the page, the tables and the figures.", "--output", "-o")
    record: Path | None = option(None, "Append the record to this .jsonl.")

    def check(self, data: Path | None) -> None:
        """Check, before the work starts, that everything can be written."""
        if self.record is not None:
            check_writable(self.record, (".jsonl",))
        if self.output.exists() and not self.output.is_dir():
            raise InputError(
                f"{self.output} is a file; give the path of a folder, which is created if it does not exist"
            )
        check_paths_differ(self.output, data)

    def write(self, bench: Bench, record: Record) -> None:
        """Write all files, append the record to its file, if there is one, and print a summary."""
        assert bench.write_files is not None
        paths = bench.write_files(record, self.output)
        if self.record is not None:
            append_line(self.record, record)
        if self.json:
            print_json(record)
        elif not self.quiet:
            print("\n".join(map(str, bench.show(record))))
            print(f"{len(paths)} files in {self.output}; open {paths[0]}")


def make_command(bench: Bench) -> Callable[..., None]:
    """Make the command of a bench: its flags, and options for an encoder, a cache and the output."""
    flags = list(list_flags(bench.run))
    declared = signature(bench.run).parameters
    output = PageOptions if bench.write_files else TableOptions if bench.render else RecordOptions
    groups: dict[str, type[OptionGroup]] = {"output_options": output}
    groups |= {"cache_options": CacheOptions} if "cache" in declared else {}
    groups |= {"encoder_options": EncoderOptions} if "encoder" in declared else {}

    def command(output_options: Any, cache_options: Any = None, encoder_options: Any = None, **given: Any) -> None:
        output_options.check(given.get("data"))
        arguments: dict[str, Any] = {"progress": output_options.progress}
        parts: dict[str, dict[str, Any]] = {}
        for flag in flags:
            target = parts.setdefault(flag.group, {}) if flag.group else arguments
            target[flag.parameter] = flag.parse(given[flag.name])
        arguments |= {name: type(declared[name].default)(**fields) for name, fields in parts.items()}
        if encoder_options is not None:
            chosen = {name: value for name, value in asdict(encoder_options.options).items() if value is not None}
            arguments |= {"encoder": encoder_options.encoder, "options": chosen}
        cache = None
        if cache_options is not None:
            scratch = output_options.output if bench.write_files else None
            cache = arguments["cache"] = cache_options.open(scratch)
        with mention_cache_on_interrupt(cache, output_options.quiet):
            record = bench.run(**arguments)
        output_options.write(bench, record)
        if failures := count_failures(record):
            print(f"kinrank: {failures} measurements failed because of a bug in kinrank; see above", file=sys.stderr)
            raise typer.Exit(1)

    parameters = [flag.declare() for flag in flags]
    parameters += [Parameter(name, Parameter.KEYWORD_ONLY, annotation=group) for name, group in groups.items()]
    command.__name__, command.__doc__ = bench.name, bench.help
    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


@contextmanager
def mention_cache_on_interrupt(cache: Cache | None, quiet: bool) -> Iterator[None]:
    """After Ctrl-C, tell that the same command continues from the stored measurements."""
    try:
        yield
    except KeyboardInterrupt:
        if cache is not None and cache.folder is not None and not quiet:
            print("\nkinrank: stopped; the same command continues from here", file=sys.stderr)
            raise typer.Exit(INTERRUPTED) from None
        raise


for declared_bench in BENCHES.values():
    add_command(app, declared_bench.name, make_command(declared_bench), short_help=declared_bench.summary)


def append_line(path: Path, document: Any) -> None:
    """Append the document to a file of JSON lines, in one write."""
    line = json.dumps(document, ensure_ascii=False, allow_nan=False) + "\n"
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)
