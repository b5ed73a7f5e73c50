"""Names of modules -> modules that are imported when they are first used.

`import kinrank` stays light: numba and scipy come with the first stage that runs. Whoever needs a stage writes
`from kinrank import stages` at the top of the file and `stages.graph.layers(...)` where it is used.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any


def modules_of(package: str, *names: str) -> Callable[[str], ModuleType]:
    """A `__getattr__` for the package, which imports the module of that name."""

    def imported(name: str) -> ModuleType:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return importlib.import_module(f"{package}.{name}")

    return imported


def needed(module: str, user: str, extra: str) -> Any:
    """The module of that name, imported now, or an ImportError that says which extra to install.

    Example:
        >>> needed("faiss", "FaissStore", "faiss")
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.split(".")[0]
        raise ImportError(
            f"{user} needs {package}, which cannot be imported ({error}); install it with: pip install "
            f"'kinrank[{extra}]'"
        ) from error
