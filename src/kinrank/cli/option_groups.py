"""Options of commands, declared once each, and groups of them that commands share."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, field, fields
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, ClassVar, get_args, get_type_hints

import typer
from typer.core import TyperCommand

File = Path | None


def option(default: Any, help: str, *flags: str, **settings: Any) -> Any:
    """Declare an option: a field of an OptionGroup, or the default of a parameter of a command.

    Args:
        default: value if it is not given; `...` for an option that must be given.
        help: text in `--help`.
        flags: such as "--output", "-o". By default the name of the field, with dashes.
        settings: of `typer.Option`, such as `min` and `max`.

    Example:
        >>> depth: int | None = option(None, "Number of results. Default: k.", min=1)
    """
    declared = {"option": typer.Option(..., *flags, help=help, **settings)}
    return field(default=MISSING if default is ... else default, metadata=declared)


class OptionGroup:
    """Base class of groups: its subclasses become frozen dataclasses, and each field is an option.

    A command has parameters of such types, and gets objects of them, filled by `expand_groups`. A subclass inherits
    the options of its base, and can declare some of them again.

    Attributes:
        title: heading of the group in `--help`.

    Example:
        >>> class Output(OptionGroup):
        ...     quiet: bool = option(False, "Print nothing.")
        >>> app.command()(expand_groups(lambda name, output: ...))  # has NAME and --quiet
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    title: ClassVar[str] = "Options"

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, kw_only=True)(cls)

    @classmethod
    def parameters(cls) -> list[Parameter]:
        """List the options as parameters of a function."""
        hints = get_type_hints(cls, include_extras=True)
        return [_declare_parameter(entry.name, hints[entry.name], entry, cls.title) for entry in fields(cls)]


def add_command(app: typer.Typer, name: str, function: Callable[..., None], **settings: Any) -> None:
    """Register a function as a command of the app; its parameters can be groups of options."""
    app.command(name, cls=GroupedCommand, **settings)(expand_groups(function))


def expand_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with the options of its groups as parameters of its own, from which typer makes options."""
    hints = get_type_hints(command, include_extras=True)
    expanded, groups = [], {}
    for parameter in signature(command).parameters.values():
        kind = hints[parameter.name]
        if isinstance(kind, type) and issubclass(kind, OptionGroup):
            groups[parameter.name] = kind
            expanded += kind.parameters()
        elif isinstance(parameter.default, Field):
            expanded.append(_declare_parameter(parameter.name, kind, parameter.default, None))
        else:
            expanded.append(parameter.replace(annotation=kind, kind=Parameter.KEYWORD_ONLY))

    def run(**given: Any) -> None:
        filled = {
            name: kind(**{entry.name: given.pop(entry.name) for entry in fields(kind)}) for name, kind in groups.items()
        }
        command(**given, **filled)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__signature__ = Signature(expanded)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in expanded}
    return run


def _declare_parameter(name: str, kind: Any, declared: Field[Any], title: str | None) -> Parameter:
    """Return the parameter from which typer makes the option, under the heading of its group."""
    if "option" in declared.metadata:
        chosen = copy.copy(declared.metadata["option"])
        chosen.param_decls = chosen.param_decls or (f"--{name.replace('_', '-')}",)
    else:  # declared by a shared type, `Json = Annotated[bool, typer.Option(...)]`
        kind, chosen = get_args(kind)
        chosen = copy.copy(chosen)
    chosen.rich_help_panel = title
    default = Parameter.empty if declared.default is MISSING else declared.default
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, chosen])


class GroupedCommand(TyperCommand):
    """A command that lists its options in `--help` under the titles of their groups."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                usual = "Arguments" if parameter.param_type_name == "argument" else "Options"
                heading = getattr(parameter, "rich_help_panel", None) or usual
                sections.setdefault(heading, []).append(record)
        places = {"Arguments": 0, "Options": 1 if len(sections["Options"]) > 1 else 3}  # --help alone is the last one
        for heading in sorted(sections, key=lambda heading: places.get(heading, 2)):
            with formatter.section(heading):
                formatter.write_dl(sections[heading])
