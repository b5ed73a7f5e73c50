"""Compiled code that several stages share, imported on first use, and the compiler itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinrank.lazy_import import lazy_submodules

if TYPE_CHECKING:
    from kinrank.stages.kernels import compiler as compiler
    from kinrank.stages.kernels import data_structures as data_structures
    from kinrank.stages.kernels import fastmath as fastmath
    from kinrank.stages.kernels import nearest_search as nearest_search

__getattr__ = lazy_submodules("kinrank.stages.kernels")
