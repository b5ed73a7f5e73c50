"""Vectors of texts and TREC judgements -> a Benchmark."""

from __future__ import annotations

import os
from pathlib import Path

from kinrank.datasets.base import Arrays, Benchmark, somebody_is_right
from kinrank.datasets.published import differences
from kinrank.evaluation import Truth

MEASURES = ("mAP", "nDCG@10")
NEEDS = "a set with judgements holds q, d and docno, the names of the documents; and qno, if its queries have names"
File = str | os.PathLike[str]


def texts(vectors: File, judgements: File, *, graded: bool = True, name: str | None = None) -> Benchmark:
    """Queries and documents with TREC judgements.

    Args:
        vectors: an .npz with `q`, a row per query, `d`, a row per document, `docno`, the name of each document, and
            `qno`, that of each query; without it, queries are called 1, 2, 3, ... in their order.
        judgements: lines `query 0 document relevance`; relevance above 0 is right.
        graded: False counts every relevance above 0 as 1 (for nDCG).
        name: of the set; the beginning of the file's name, up to the first "_", unless given. What differs from the
            published set of that name is a NotAsPublished warning, and stands in `notes`.

    Returns:
        A Benchmark with the truth "relevant". A run of another program is read by `kinrank.load_ranking("run.trec")`
        and scored by the same truth.
    """
    source = Path(vectors)
    arrays = Arrays(source, NEEDS)
    queries, documents = arrays.rows("q"), arrays.rows("d")
    if queries.shape[1] != documents.shape[1]:
        raise ValueError(
            f"{source}: q has {queries.shape[1]} dimensions and d {documents.shape[1]}; "
            "both must come from the same model"
        )
    known = arrays.column("qno", len(queries)).tolist() if "qno" in arrays else range(1, len(queries) + 1)
    asked = [str(query) for query in known]
    truth = Truth.from_qrels(judgements, asked, arrays.column("docno", len(documents)).tolist(), graded=graded)
    somebody_is_right({"relevant": truth}, judgements)
    name = name or source.stem.partition("_")[0]
    notes = differences(name, source, {"queries": len(queries), "documents": len(documents)})
    return Benchmark(name, queries, documents, {"relevant": truth}, MEASURES, notes)
