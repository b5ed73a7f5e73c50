"""Removal of this machine's folders from error messages, which clients must not learn."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from kinrank.web.settings import Settings

PATH_START = r"(?:(?<![\w./-])|(?<=//))"  # also after the two slashes of a URL without a host
ABSOLUTE_PATH = re.compile(PATH_START + r"(/[^\s/'\"`,;:()]+)+")


def remove_folders(message: str) -> str:
    """Reduce every absolute path in a message to its last part.

    Example:
        >>> remove_folders("/srv/photos/a.png is not a picture")
        'a.png is not a picture'
    """
    return ABSOLUTE_PATH.sub(lambda match: match[1][1:], message)


def make_redactor(settings: Settings) -> Callable[[str], str]:
    """Return a function that removes the folders of all files of a service from a message.

    Other paths stay, because ids and URLs in a request can look like paths.
    """
    folders = {str(parent) for path in _find_paths(asdict(settings)) for parent in (path, *path.parents)} - {os.sep}
    if not folders:
        return str
    longest_first = sorted(folders, key=len, reverse=True)
    known = re.compile(rf"{PATH_START}({'|'.join(map(re.escape, longest_first))})(?![\w-])")
    return lambda message: known.sub(lambda match: os.path.basename(match[1]), message)


def _find_paths(value: Any) -> Iterator[Path]:
    """Yield the absolute paths of all files and folders in settings, with and without links resolved."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for element in value:
            yield from _find_paths(element)
    elif isinstance(value, str) and value:
        path = unquote(urlsplit(value).path) if re.match(r"[\w+.-]+:", value) else value
        if os.path.exists(path):
            yield Path(os.path.abspath(path))
            yield Path(os.path.realpath(path))
