"""A model of sentence-transformers, in a folder or downloaded before -> an encoder of texts, of some for pictures."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kinrank.deferred import needed
from kinrank.encoders.base import PICTURES, TEXTS, Encoder, Options, rows
from kinrank.encoders.hub import cached_folder, folder_checksum, offline
from kinrank.encoders.on_torch import bounded, device_of, first_line
from kinrank.features import Vectors
from kinrank.files.paths import resolved

NAME = "sentence-transformers"
OLDEST = 6  # before that, the library imported whatever the folder of a model named
MODALITIES = {PICTURES: "image", TEXTS: "text"}


class SentenceEncoder(Encoder):
    """What a model of the library makes of texts, and of pictures if it is one of those that know both.

    On a CPU each is encoded alone: in a batch texts are filled up to one length, and even among texts of one length the
    last bits depend on the others.
    """

    def __init__(self, name: str, extra: str, model: str, folder: Path, device: str | None) -> None:
        library = needed("sentence_transformers", f"the encoder {name}", extra)
        version = str(library.__version__)
        if int(version.split(".")[0]) < OLDEST:
            raise ImportError(
                f"the encoder {name} needs sentence-transformers {OLDEST} or newer and {version} is installed; install "
                f"it with: pip install --upgrade 'kinrank[{extra}]'"
            )
        self._device = device_of(device, name)
        self._model = _loaded(library, folder, self._device)
        self.kinds = tuple(kind for kind, modality in MODALITIES.items() if modality in self._model.modalities)
        self.dimensions = self._first_length()
        self.facts = {
            "encoder": name,
            "model": model,
            "weights": folder_checksum(folder),
            "tokens": self._model.max_seq_length,
            "library": f"sentence-transformers {version}",
        }

    def pictures(self, images: Sequence[Any]) -> Vectors:
        return self._encoded([bounded(image) for image in images])

    def texts(self, texts: Sequence[str]) -> Vectors:
        return self._encoded([text.encode("utf-8", "replace").decode() for text in texts])  # half characters become ?

    def _encoded(self, items: Sequence[Any]) -> Vectors:
        size = 1 if self._device.type == "cpu" else max(1, len(items))
        groups = [list(items[start : start + size]) for start in range(0, len(items), size)]
        made = [self._model.encode(group, batch_size=size, show_progress_bar=False) for group in groups]
        return rows(np.concatenate(made) if made else np.empty((0, self.dimensions)), len(items), self.dimensions)

    def _first_length(self) -> int:
        """How long a vector is; the library does not know it of every model."""
        if TEXTS in self.kinds:
            return len(self._model.encode("a", show_progress_bar=False))
        image = needed("PIL.Image", f"the encoder {NAME}", NAME).new("RGB", (64, 64))
        return len(self._model.encode(image, show_progress_bar=False))


def opened(options: Options) -> Encoder:
    """The encoder over model=, a folder or the name of a model that was downloaded before."""
    options.only(NAME, "model", "device")
    if not options.model:
        raise ValueError(f"the encoder {NAME} needs model=, a folder or the name of a model that was downloaded")
    folder = Path(options.model)
    if folder.is_dir():
        return SentenceEncoder(NAME, NAME, resolved(folder).name, folder, options.device)
    full = options.model if "/" in options.model else f"sentence-transformers/{options.model}"
    cache = os.environ.get("SENTENCE_TRANSFORMERS_HOME")
    return SentenceEncoder(NAME, NAME, full, cached_folder(full, NAME, NAME, cache), options.device)


def _loaded(library: Any, folder: Path, device: Any) -> Any:
    """The model in a folder; nothing is fetched, and no code in it or named by it is executed."""
    try:
        with offline(), _quiet():
            return library.SentenceTransformer(
                str(folder), device=str(device), local_files_only=True, trust_remote_code=False
            )
    except ImportError:
        raise
    except Exception as error:  # of several libraries, each with kinds of its own
        raise ValueError(
            f"{folder} cannot be opened by sentence-transformers ({first_line(error)}); give the folder of a whole "
            "model that needs no code of its own"
        ) from None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """No bar while weights are read."""
    logging = needed("transformers.utils.logging", f"the encoder {NAME}", NAME)
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
