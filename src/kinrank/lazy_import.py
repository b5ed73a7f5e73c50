"""Lazy imports: modules of a package that are imported on first use, and optional packages.

This keeps `import kinrank` fast: numba and scipy are imported by the first stage that runs. Code that needs a stage
writes `from kinrank import stages` at the top of the file and `stages.gaussian_graph.layered_graphs(...)` where it
is used.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from kinrank.errors import MissingExtraError


def lazy_submodules(package: str) -> Callable[[str], ModuleType]:
    """Return a `__getattr__` for the package that imports submodules by name."""

    def import_submodule(name: str) -> ModuleType:
        if importlib.util.find_spec(f"{package}.{name}") is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return importlib.import_module(f"{package}.{name}")

    return import_submodule


def import_extra(module: str, user: str, extra: str) -> Any:
    """Import a module, or raise a MissingExtraError that names the extra to install.

    Example:
        >>> faiss = import_extra("faiss", "FaissStore", "faiss")
    """
    with require_extra(module.split(".")[0], user, extra):
        return importlib.import_module(module)


@contextmanager
def require_extra(package: str, user: str, extra: str) -> Iterator[None]:
    """Turn an ImportError inside the block into a MissingExtraError that names the extra to install."""
    try:
        yield
    except ImportError as error:
        raise MissingExtraError(
            f"{user} needs {package}, which cannot be imported ({error}); install it in a clone of kinrank with: pip "
            f"install {'./bench' if extra == 'bench' else repr(f'.[{extra}]')}"
        ) from error
