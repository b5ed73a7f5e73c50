"""Pages of the API reference, for the public names of kinrank and its internal modules; mkdocstrings fills them.

Only names are read here: the texts come from the docstrings when the site is built. A new public name, method, stage or
module is included automatically.
"""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from typing import Any

from generator.pages import parameter_table, table
from kinrank import METHODS
from kinrank.methods import Method
from kinrank.stores.url import ENGINES

SOURCE = Path(inspect.getfile(importlib.import_module("kinrank"))).parent
PUBLIC = {
    "kinrank": "the names in `import kinrank as kr`; the methods have their own page",
    "kinrank.methods": "every method, its parameters and the `Method` interface for your own",
    "kinrank.stores": "stores that hold and search vectors",
    "kinrank.evaluation": "truth, measures, means with intervals, paired comparisons",
    "kinrank.ranking": "rankings and the results of one query",
    "kinrank.augmentation": "gallery vectors averaged with their neighbours",
    "kinrank.diagnosis": "will re-ranking help, and with which parameters",
    "kinrank.encoders": "vectors of pictures and texts",
    "kinrank.learned": "weights of learned methods",
    "kinrank.whitening": "whitening of vectors",
    "kinrank.thermodynamics": "one step as a flow: states, cost, entropy",
    "kinrank.distributed": "the same on a Dask cluster",
    "kinrank.testing": "checks for the guarantees of a method, and small sets with known answers",
}
MORE = {  # public names that are imported from a separate module, because they need an extra
    "kinrank.stores": [
        "kinrank.stores.faiss.FaissStore",
        *(f"kinrank.stores.{engine.module}.{engine.name}" for engine in ENGINES.values()),
        "kinrank.stores.engine.EngineStore",
    ],
}
INNER = {
    "kinrank.stages": "the arithmetic: pure functions on arrays, neighbour lists and sparse matrices",
    "kinrank.manifold": "a prepared gallery: build, search, change, save",
}
FIRST = ["rerank", "Manifold", "Ranking", "evaluate", "compare", "Truth", "explain", "augment", "check_method", "toy"]
WIDTH = 110
PLAIN = {"show_root_heading": "false", "show_root_toc_entry": "false", "members": "false", "show_bases": "false"}


def reference() -> dict[str, str]:
    """Markdown by the path of the page, below docs/; the order is that of the navigation."""
    made = {"reference/index.md": _index(), "reference/internals.md": _internals()}
    placed: dict[str, str] = {}  # every object is described once; other pages link to it
    for package in PUBLIC:
        made[path_of(package)] = _methods() if package == "kinrank.methods" else _names(package, placed)
    for package in INNER:
        made |= {path_of(module): _module(module, placed) for module in modules(package)}
    return made


def path_of(module: str) -> str:
    """The path of a module's page: `kinrank.stages.gaussian_graph` -> `reference/stages/gaussian_graph.md`."""
    return "reference/" + (module.removeprefix("kinrank.").replace(".", "/")) + ".md"


def modules(package: str) -> list[str]:
    """The modules of a package in alphabetical order, without kernels and private ones."""
    folder = SOURCE.joinpath(*package.split(".")[1:])
    return [f"{package}.{path.stem}" for path in sorted(folder.glob("*.py")) if not path.stem.startswith("_")]


def names_of(package: str) -> dict[str, str]:
    """Public name -> where it is defined; methods are described only on their own page."""
    module = importlib.import_module(package)
    methods = {kind.__name__ for kind in METHODS.values()} | {"Method", "METHODS"}
    shown = [name for name in module.__all__ if package != "kinrank" or name not in methods]
    shown.sort(key=lambda name: (FIRST.index(name) if name in FIRST else len(FIRST), name.lower()))
    found = {name: _find_definition(package, name, getattr(module, name)) for name in shown}
    return found | {path.rpartition(".")[2]: path for path in MORE.get(package, [])}


def members_of(place: str) -> list[str]:
    """Public functions and properties of a class in the order of the source; its docstring describes the fields."""
    module, _, name = place.rpartition(".")
    thing = getattr(importlib.import_module(module), name)
    kinds = (property, classmethod, staticmethod)
    return [
        member
        for member, value in (vars(thing).items() if inspect.isclass(thing) else ())
        if not member.startswith("_") and (inspect.isfunction(value) or isinstance(value, kinds))
    ]


def _find_definition(package: str, name: str, thing: Any) -> str:
    if inspect.isclass(thing) or inspect.isfunction(thing):
        return f"{thing.__module__}.{thing.__qualname__}"
    for module in sorted(SOURCE.joinpath(*package.split(".")[1:]).glob("*.py")):  # constants have no __module__
        if module.stem != "__init__" and f"\n{name}" in module.read_text("utf-8"):
            return f"{package}.{module.stem}.{name}"
    return f"{package}.{name}"


def _names(package: str, placed: dict[str, str]) -> str:
    parts = [f"# {package}", _sentence(PUBLIC[package])]
    names = names_of(package)
    elsewhere = [f"[`{name}`][{place}]" for name, place in names.items() if place in placed]
    if elsewhere:
        parts.append(f"Also available here: {', '.join(elsewhere)}.")
    if package == "kinrank":
        parts.append("Also available here: [`Method`, `METHODS` and every method](methods.md).")
    for name, place in names.items():
        if place not in placed:
            placed[place] = name
            parts.append(_entry(place, {"heading": name, "toc_label": name, **_members(place)}))
    return "\n\n".join(parts) + "\n"


def _members(place: str) -> dict[str, str]:
    module, _, name = place.rpartition(".")
    values = not isinstance(
        getattr(importlib.import_module(module), name), dict
    )  # the value of a dict of functions is not useful
    return {
        "members": f"[{', '.join(members_of(place))}]",
        "show_if_no_docstring": "true",
        "show_attribute_values": str(values).lower(),
    }


def _methods() -> str:
    parts = ["# kinrank.methods", _sentence(PUBLIC["kinrank.methods"]), _entry("kinrank.methods.base.Method", {})]
    parts += ["## METHODS", "`kinrank.METHODS`: the classes below by their names on the command line."]
    parts += [_method(kind) for kind in METHODS.values()]
    return "\n\n".join(parts) + "\n"


def _method(kind: type[Method]) -> str:
    """The docstring, and the parameters from their declaration, which mkdocstrings cannot read."""
    place = f"{kind.__module__}.{kind.__qualname__}"
    keywords = ", ".join(f"{declared.name}={declared.default!r}" for declared in kind.parameters())
    call = f"{kind.__name__}({keywords})"
    return "\n\n".join(
        [
            f"## {kind.__name__} {{ #{kind.__name__.lower()} }}",
            f"`{kind.name}`: [cost, unusual input and measurements](../methods/{kind.name}.md)",
            *([f"```python\n{call}\n```"] if len(call) <= WIDTH else []),  # the table is clearer than a longer one
            _entry(place, PLAIN),
            *([parameter_table(kind)] if keywords else []),
        ]
    )


def _module(module: str, placed: dict[str, str]) -> str:
    known = {place: name for place, name in placed.items() if place == f"{module}.{name}"}
    filters = ", ".join(["'!^_'", *(f"'!^{name}$'" for name in known.values())])
    options = {"show_root_heading": "false", "show_root_toc_entry": "false", "filters": f"[{filters}]"}
    links = [f"Public, described separately: [`{name}`][{place}].\n" for place, name in known.items()]
    return "\n".join([f"# {module}\n", *links, _entry(module, options)]) + "\n"


def _index() -> str:
    rows = [("module", "content"), *((_link(package), text) for package, text in PUBLIC.items())]
    text = (
        "Generated from the docstrings. Import only from these modules. Contributors find all others under "
        "[Internals](internals.md)."
    )
    return "\n\n".join(["# API reference", text, table(rows)]) + "\n"


def _internals() -> str:
    rows = [("module", "content")]
    for package, text in INNER.items():
        rows.append((f"**{package}**", f"**{text}**"))
        rows += [(_link(module), _first_paragraph(module)) for module in modules(package)]
    text = (
        "Modules for contributors. Their names may change from version to version; users need only the [API](index.md)."
    )
    return "\n\n".join(["# Internals", text, table(rows)]) + "\n"


def _link(module: str) -> str:
    return f"[`{module}`]({path_of(module).removeprefix('reference/')})"


def _first_paragraph(module: str) -> str:
    """The first paragraph of a module's docstring, read without importing it."""
    text = SOURCE.joinpath(*module.split(".")[1:]).with_suffix(".py").read_text("utf-8")
    return " ".join(text.split('"""')[1].split("\n\n")[0].split())


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."


def _entry(place: str, options: dict[str, str]) -> str:
    lines = [f"        {name}: {value}" for name, value in options.items()]
    return "\n".join([f"::: {place}", *(["    options:", *lines] if lines else [])])
