"""Every method, by its name on the command line. Adding one = one file and one line here."""

from __future__ import annotations

from kinrank.methods.base import Method
from kinrank.methods.none import NoReranking

METHODS: dict[str, type[Method]] = {method.name: method for method in (NoReranking,)}

__all__ = ["METHODS", "Method", "NoReranking"]
