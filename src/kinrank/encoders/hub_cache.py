"""Local cache of the Hugging Face hub: files of a model by name. Nothing is ever downloaded."""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from kinrank.encoders.base import weights_checksum
from kinrank.errors import InputError
from kinrank.lazy_import import import_extra

# Suffixes of the files that determine the vectors of a model
MODEL_FILE_SUFFIXES = (".json", ".txt", ".model", ".safetensors", ".bin", ".h5")
_offline_lock = threading.RLock()  # the setting of the hub is global


def find_cached_folder(name: str, encoder: str, extra: str, cache: str | None = None) -> Path:
    """Return the folder of a downloaded model. Raise InputError with the download command if there is none."""
    hub = import_extra("huggingface_hub", f"the encoder {encoder}", extra)
    try:
        return Path(hub.snapshot_download(name, cache_dir=cache, local_files_only=True))
    except ValueError:  # not a valid name of a model
        raise InputError("is not an existing folder", parameter="model", given=name, remedy="check the path") from None
    except OSError:
        raise InputError(
            "is neither a folder nor a downloaded model",
            parameter="model",
            given=name,
            remedy=f"download it with: hf download {name}, or give the folder of a model",
        ) from None


def find_cached_file(repository: str, names: Sequence[str], encoder: str, extra: str) -> Path | None:
    """Return the first of these files of a repository that has been downloaded, or None."""
    hub = import_extra("huggingface_hub", f"the encoder {encoder}", extra)
    found = (hub.try_to_load_from_cache(repository, name) for name in names)
    return next((Path(path) for path in found if isinstance(path, str)), None)


@contextlib.contextmanager
def block_downloads() -> Iterator[None]:
    """Block downloads from the hub in this block. One thread at a time can be inside."""
    constants = import_extra("huggingface_hub.constants", "this encoder", "sentence-transformers")
    with _offline_lock:
        before = constants.HF_HUB_OFFLINE
        constants.HF_HUB_OFFLINE = True
        try:
            yield
        finally:
            constants.HF_HUB_OFFLINE = before


def folder_checksum(folder: Path) -> str:
    """Return the first 32 hexadecimal digits of a SHA-256 of the files that determine the vectors of a model."""
    digest = hashlib.sha256()
    for place, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted(files):
            if name.endswith(MODEL_FILE_SUFFIXES) and not name.startswith("."):
                path = Path(place) / name
                digest.update(f"{path.relative_to(folder).as_posix()} {weights_checksum(path)}\n".encode())
    return digest.hexdigest()[:32]
