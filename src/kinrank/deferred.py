"""Names of modules -> a package whose modules are imported when they are first used.

`import kinrank` stays light: numba and scipy come with the first stage that runs. Whoever needs a stage writes
`from kinrank import stages` at the top of the file and `stages.graph.layers(...)` where it is used.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType


def modules_of(package: str, *names: str) -> Callable[[str], ModuleType]:
    """A `__getattr__` for the package, which imports the module of that name."""

    def imported(name: str) -> ModuleType:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return importlib.import_module(f"{package}.{name}")

    return imported
