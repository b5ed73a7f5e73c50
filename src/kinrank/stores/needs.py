"""A package that a store needs -> the package, or an error that says how to install it."""

from __future__ import annotations

import importlib
from typing import Any


def needed(module: str, store: str, extra: str) -> Any:
    """The module of that name, imported now.

    Example:
        >>> needed("faiss", "FaissStore", "faiss")
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.split(".")[0]
        raise ImportError(
            f"{store} needs {package}, which cannot be imported ({error}); install it with: pip install "
            f"'kinrank[{extra}]'"
        ) from error
