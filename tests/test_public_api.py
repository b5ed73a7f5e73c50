"""The public names of kinrank, and the shape of their signatures."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from typing import Any

import pytest

import kinrank as kr

MAX_NAMES = 30
MAX_POSITIONAL = 3
CLASSES = [kr.Manifold, kr.Client, kr.Ranking, kr.Truth, kr.whitening.Whitening, kr.stores.ArrayStore]


def public_functions() -> Iterator[Any]:
    for name in kr.__all__:
        if inspect.isfunction(function := getattr(kr, name)):
            yield function
    yield from (kr.distributed.rerank, kr.distributed.build, kr.augmentation.augment, kr.evaluation.compare_scores)
    for kind in CLASSES:
        for name, member in vars(kind).items():
            function = member.__func__ if isinstance(member, classmethod) else member
            if inspect.isfunction(function) and (name == "__init__" or not name.startswith("_")):
                yield function


def test_the_names_are_few_and_all_are_public() -> None:
    assert len(kr.__all__) <= MAX_NAMES
    assert dir(kr) == sorted({*kr.__all__, *kr.MODULES, "__version__"})
    for name in dir(kr):
        assert getattr(kr, name) is not None


def test_modules_are_attributes_and_nothing_else_is() -> None:
    for name in kr.MODULES:
        assert getattr(kr, name) is importlib.import_module(f"kinrank.{name}")
    with pytest.raises(AttributeError, match="module 'kinrank' has no attribute 'AQE'"):
        _ = kr.AQE


@pytest.mark.parametrize("function", list(public_functions()), ids=lambda function: function.__qualname__)
def test_options_are_given_by_name(function: Any) -> None:
    parameters = inspect.signature(function).parameters.values()
    names = [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
    assert len([name for name in names if name not in ("self", "cls")]) <= MAX_POSITIONAL, names
    assert "gallery_or_store" not in inspect.signature(function).parameters


def test_k_is_the_number_of_results() -> None:
    for function in (kr.rerank, kr.Manifold.search, kr.compare, kr.fuse, kr.Client.search):
        assert "k" in inspect.signature(function).parameters
