"""The name of a model on the Hugging Face hub -> its files on this machine; nothing is ever fetched."""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from kinrank.deferred import needed
from kinrank.encoders.base import checksum

DECIDING = (".json", ".txt", ".model", ".safetensors", ".bin", ".h5")  # files of a model that decide its vectors
_opening = threading.RLock()  # the hub's setting is one for all threads


def cached_folder(name: str, encoder: str, extra: str, cache: str | None = None) -> Path:
    """The folder of a model that was downloaded before, or a ValueError that says how that is done."""
    hub = needed("huggingface_hub", f"the encoder {encoder}", extra)
    try:
        return Path(hub.snapshot_download(name, cache_dir=cache, local_files_only=True))
    except ValueError:  # a name that no model can have
        raise ValueError(f"model={name!r} is no folder that is there; check the path") from None
    except OSError:
        raise ValueError(
            f"model={name!r} is neither a folder nor a model that was downloaded to this machine; fetch it with: "
            f"hf download {name}, or give the folder of a model"
        ) from None


def cached_file(repository: str, names: Sequence[str], encoder: str, extra: str) -> Path | None:
    """The first of these files of a repository that was downloaded before."""
    hub = needed("huggingface_hub", f"the encoder {encoder}", extra)
    found = (hub.try_to_load_from_cache(repository, name) for name in names)
    return next((Path(path) for path in found if isinstance(path, str)), None)


@contextlib.contextmanager
def offline() -> Iterator[None]:
    """In this block nothing is fetched from the hub, whatever a model asks for; one thread at a time."""
    constants = needed("huggingface_hub.constants", "this encoder", "sentence-transformers")
    with _opening:
        before = constants.HF_HUB_OFFLINE
        constants.HF_HUB_OFFLINE = True
        try:
            yield
        finally:
            constants.HF_HUB_OFFLINE = before


def folder_checksum(folder: Path) -> str:
    """The first 32 signs of a SHA-256 of the files that decide what a model in a folder does."""
    known = hashlib.sha256()
    for place, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted(files):
            if name.endswith(DECIDING) and not name.startswith("."):
                path = Path(place) / name
                known.update(f"{path.relative_to(folder).as_posix()} {checksum(path)}\n".encode())
    return known.hexdigest()[:32]
