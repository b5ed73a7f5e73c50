"""Options that give the relevant items of queries, and the reading of their files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from kinrank.cli.input_files import read_label_file
from kinrank.cli.option_groups import File, OptionGroup, option
from kinrank.errors import InputError
from kinrank.evaluation import Truth
from kinrank.files.split_lists import is_split
from kinrank.files.text_columns import read_labels
from kinrank.files.vector_files import split_key

LABEL_SUFFIXES = (".npy", ".npz", ".csv")
Ids = list[str] | None


class TruthOptions(OptionGroup):
    """Files with the relevant items of each query."""

    title = "Relevant items"
    truth: File = option(
        None, "Relevant items: .pkl of revisited Oxford or Paris, TREC qrels .txt, split list .txt, or labels."
    )
    protocol: str | None = option(None, "easy, medium (default) or hard, for a .pkl.")
    labels: File = option(None, "Labels .npz (or FILE.npz:KEY), .npy or .csv of items that are queries for each other.")
    query_labels: File = option(None, "Labels of the queries.")
    gallery_labels: File = option(None, "Labels of the gallery.")
    query_cameras: File = option(
        None,
        "Camera of each query, one per line; --query-labels are persons. Images of the same person by the "
        "same camera are ignored, and so are those labelled -1.",
    )
    gallery_cameras: File = option(None, "Camera of each item, one per line.")
    binary: bool = option(False, "Count every relevance above 0 in qrels as 1 (for nDCG).")

    @property
    def paths(self) -> list[File]:
        """All files that are given, or None instead of them."""
        cameras = (self.query_cameras, self.gallery_cameras)
        return [self.truth, self.labels, self.query_labels, self.gallery_labels, *cameras]

    def read(self, query_ids: Ids, item_ids: Ids) -> Truth:
        """Read the truth."""
        self._check()
        ids: dict[str, Any] = {"item_ids": item_ids, "query_ids": query_ids}
        gallery_labels, query_labels = self.read_classes()
        if gallery_labels is not None and query_labels is not None:
            if self.query_cameras is None or self.gallery_cameras is None:
                return Truth.from_labels(query_labels, gallery_labels, **ids)
            ids |= {
                "query_cameras": _read_cameras(self.query_cameras),
                "gallery_cameras": _read_cameras(self.gallery_cameras),
            }
            return Truth.across_cameras(query_labels, gallery_labels, **ids)
        if gallery_labels is not None:
            return Truth.from_labels(gallery_labels, **ids)
        if self.truth is None:
            raise InputError("--query-labels and --gallery-labels need each other; give both")
        if self._is_revisited:
            return Truth.revisited(self.truth, self.protocol or "medium", **ids)
        if is_split(self.truth):
            if query_ids is not None or item_ids is not None:
                raise InputError(
                    f"{self.truth} has the ids of its queries and items; leave out --query-ids and --item-ids"
                )
            return Truth.from_split(self.truth)
        return Truth.from_qrels(self.truth, **ids, graded=not self.binary)

    def read_classes(self) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
        """Read the labels of the items, and of the queries if they have labels of their own; None for none."""
        is_labels = self.truth is not None and split_key(self.truth)[0].suffix.lower() in LABEL_SUFFIXES
        labels = self.truth if is_labels else self.labels
        if labels is not None:
            return read_label_file(labels), None
        if self.query_labels is None or self.gallery_labels is None:
            return None, None
        return read_label_file(self.gallery_labels), read_label_file(self.query_labels)

    @property
    def _is_revisited(self) -> bool:
        return self.truth is not None and self.truth.suffix.lower() in (".pkl", ".pickle")

    def _check(self) -> None:
        """Refuse options that exclude or need each other."""
        pair = self.query_labels is not None or self.gallery_labels is not None
        if [self.truth is not None, self.labels is not None, pair].count(True) != 1:
            raise InputError(
                "give the relevant items, once: --truth, or --labels, or --query-labels with --gallery-labels"
            )
        cameras = (self.query_cameras, self.gallery_cameras)
        if cameras != (None, None) and (None in cameras or not pair):
            raise InputError(
                "--query-cameras and --gallery-cameras need each other, and --query-labels and --gallery-labels"
            )
        if self.protocol is not None and not self._is_revisited:
            raise InputError(f"--protocol {self.protocol} is for a ground truth .pkl only; leave it out")


def _read_cameras(path: Path) -> NDArray[Any]:
    """Read one camera per image, from a file as for labels, or from the array cam of an .npz."""
    if path.suffix.lower() == ".npz":
        return read_labels(path, "cam")
    return read_label_file(path)
