"""Error messages -> the same messages without the folders of this machine, for clients who must not learn them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from kinrank.web.settings import Settings

BEGIN = r"(?:(?<![\w./-])|(?<=//))"  # also behind the two slashes of a URL without a host
ABSOLUTE = re.compile(BEGIN + r"(/[^\s/'\"`,;:()]+)+")


def without_folders(words: str) -> str:
    """The message with every absolute path reduced to its last part.

    Example:
        >>> without_folders("/srv/photos/a.png is no picture")
        'a.png is no picture'
    """
    return ABSOLUTE.sub(lambda found: found[1][1:], words)


def redaction_of(settings: Settings) -> Callable[[str], str]:
    """A function that removes from a message the folders of all files that a service uses.

    Only these: ids and addresses of requests may look like paths, too.
    """
    folders = {str(parent) for path in _paths(asdict(settings)) for parent in (path, *path.parents)} - {os.sep}
    if not folders:
        return str
    longest_first = sorted(folders, key=len, reverse=True)
    known = re.compile(rf"{BEGIN}({'|'.join(map(re.escape, longest_first))})(?![\w-])")
    return lambda words: known.sub(lambda found: os.path.basename(found[1]), words)


def _paths(value: Any) -> Iterator[Path]:
    """Absolute paths of all files and folders that settings name, links followed and not."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for one in value:
            yield from _paths(one)
    elif isinstance(value, str) and value:
        place = unquote(urlsplit(value).path) if re.match(r"[\w+.-]+:", value) else value
        if os.path.exists(place):
            yield Path(os.path.abspath(place))
            yield Path(os.path.realpath(place))
