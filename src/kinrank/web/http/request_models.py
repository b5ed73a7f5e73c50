"""Pydantic models of requests and responses, from which the OpenAPI description is generated."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from kinrank.web.query_encoder import MAX_TEXT_CHARACTERS

Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Vector = Annotated[list[Number], Field(fail_fast=True, min_length=1, max_length=65_536)]  # report only the first error
Vectors = Annotated[list[Vector], Field(fail_fast=True)]
Whole = Annotated[int, Field(strict=True)]
Text = Annotated[str, Field(strict=True, max_length=1000)]
Id = Annotated[int, Field(strict=True, ge=-(2**63), lt=2**64)] | Text
Ids = Annotated[list[Id], Field(fail_fast=True)]
Numbers = Annotated[list[Whole], Field(fail_fast=True)]
Lists = Annotated[list[Ids], Field(fail_fast=True)]
Value = Annotated[int, Field(strict=True)] | Annotated[float, Field(strict=True)] | Annotated[bool, Field(strict=True)]
Parameters = Annotated[dict[Text, Value | Text | None], Field(max_length=100)]
Version = Annotated[int, Field(strict=True, ge=0, lt=2**53)]
LongText = Annotated[str, Field(strict=True, max_length=MAX_TEXT_CHARACTERS)]
Image = Annotated[str, Field(strict=True, max_length=2**25)]
Texts = Annotated[list[LongText], Field(fail_fast=True)]
Images = Annotated[list[Image], Field(fail_fast=True)]


def show_examples(*examples: dict[str, Any]) -> ConfigDict:
    """Return the settings of a model that has examples in the OpenAPI description."""
    return ConfigDict(extra="forbid", json_schema_extra={"examples": list(examples)})


class StrictModel(BaseModel):
    """Model that refuses unknown keys, which would be settings without effect."""

    model_config = ConfigDict(extra="forbid")


class Search(StrictModel):
    """Queries, given as vectors, item ids, query numbers, texts or pictures, and the options of the search."""

    model_config = show_examples(
        {"vectors": [[0.1, 0.9, 0.2]], "k": 10},
        {"ids": ["beach_17"], "k": 10},
        {"ids": ["beach_17"], "method": "k-reciprocal", "parameters": {"k1": 20}, "candidates": 500},
    )

    vectors: Vectors | None = Field(None, description="One row of numbers per query.")
    ids: Ids | None = Field(None, description="Items of the gallery as queries; an item is not among its own results.")
    queries: Numbers | None = Field(None, description="Numbers of queries that the service was started with.")
    texts: Texts | None = Field(None, description="Descriptions to search for, if the service can encode texts.")
    images: Images | None = Field(None, description="Bytes of pictures in base64, if the service can encode pictures.")
    k: Whole = Field(10, description="Number of results per query.")
    depth: Whole | None = Field(
        None, description="Number of results to return; those after the first k are less certain."
    )
    budget: Whole | None = Field(
        None, description="Maximum number of items to examine; more is slower and more certain."
    )
    max_distance: Number | None = Field(None, description="Leave out items beyond this distance.")
    where: Ids | dict[str, Any] | None = Field(
        None, description="Allow only these items as results; over a database also an object of columns and values."
    )
    positives: Ids | Lists | None = Field(None, description="Items marked as right.")
    negatives: Ids | Lists | None = Field(None, description="Items marked as wrong.")
    groups: Ids | None = Field(None, description="One label per vector; vectors with the same label form one query.")
    method: Text | None = Field(None, description="Another method than the prepared one; it re-ranks only candidates.")
    parameters: Parameters = Field({}, description="Parameters of the method.")
    candidates: Whole | None = Field(None, description="Number of nearest items that such a method re-ranks.")
    min_version: Version | None = Field(None, description="Wait until the answering process knows this change.")


class SearchResponse(BaseModel):
    """Results, nearest first, one row per query; rows can be shorter than k."""

    ids: list[list[Id]]
    distances: list[list[float]]
    query_ids: list[Id] | None
    mode: str = Field(description="online: the prepared gallery; candidates: a graph of only the nearest items.")
    method: str
    certain: float | None = Field(description="Share of queries whose k best results are certain.")
    seconds: float
    version: int


class Rerank(StrictModel):
    """A query and the vectors that a search found for it."""

    model_config = show_examples({"query": [0.1, 0.9], "vectors": [[0.9, 0.1], [0.2, 0.8]], "top_n": 2})

    query: Vector
    vectors: Vectors
    method: Text = "lpmt"
    parameters: Parameters = {}
    top_n: Annotated[int, Field(strict=True, ge=1)] | None = None
    metric: Text | None = None


class RerankResult(BaseModel):
    index: int = Field(description="Position of the vector in the request.")
    relevance_score: float = Field(description="Larger is better, among the vectors of this query only.")


class RerankResponse(BaseModel):
    results: list[RerankResult]
    mode: str
    method: str
    seconds: float


class Explain(StrictModel):
    """A query, given in one of three ways, and the item to explain."""

    model_config = show_examples({"id": "beach_17", "item": "beach_31", "flows": 5})

    vector: Vector | None = None
    id: Id | None = None
    query: Whole | None = None
    item: Id
    flows: Annotated[int, Field(strict=True, ge=0, le=1000)] = 5
    min_version: Version | None = None


class Put(StrictModel):
    """Items to add; with `replace`, they overwrite items with the same ids."""

    model_config = show_examples({"vectors": [[0.1, 0.9, 0.2]], "ids": ["beach_18"]})

    vectors: Vectors
    ids: Ids | None = None
    replace: Annotated[bool, Field(strict=True)] = False


class Remove(StrictModel):
    model_config = show_examples({"ids": ["beach_18"]})

    ids: Ids


class Observe(StrictModel):
    """Queries to remember: vectors, texts or pictures."""

    model_config = show_examples({"vectors": [[0.1, 0.9, 0.2]]})

    vectors: Vectors | None = Field(None, description="One row of numbers per query.")
    texts: Texts | None = Field(None, description="Texts that were searched for, if the service can encode texts.")
    images: Images | None = Field(None, description="Bytes of pictures in base64, if the service can encode pictures.")


class ChangeResponse(BaseModel):
    """An acknowledged change, which survives the death of the process."""

    version: int = Field(description="Send it as min_version to see this change, whichever process answers.")
    added: int
    replaced: int
    removed: int
    items: int = Field(description="Number of items after the change.")
    ids: Ids | None = Field(description="Ids of the added items.")
    observed: int = Field(description="Number of accepted queries; near-duplicates among them are dropped later.")


class Query(StrictModel):
    """Query of the page, given in one of three ways."""

    item: Id | None = None
    query: Whole | None = None
    vector: Vector | None = None


class Rank(StrictModel):
    model_config = show_examples({"query": {"query": 3}, "k": 20})

    query: Query
    k: Whole = 20
    method: Text | None = None
    parameters: Parameters = {}
    candidates: Whole = 1000
    positives: Ids = []
    negatives: Ids = []
    level: Text | None = None


class Chain(Rank):
    item: Id


class Upload(StrictModel):
    """Either a picture or a text."""

    model_config = show_examples({"text": "a dog on a beach"})

    image: Image | None = Field(None, description="Bytes of a picture in base64.")
    text: LongText | None = None


class View(StrictModel):
    """An upload, or marks, of the page."""

    vector: Annotated[str, Field(strict=True, max_length=2**19)] | None = Field(None, description="float32 in base64.")
    name: Text | None = None
    picture: Annotated[str, Field(strict=True, max_length=2**19)] | None = Field(None, description="A data: URL.")
    right: Ids = []
    wrong: Ids = []


class Token(StrictModel):
    token: Text


class ErrorResponse(BaseModel):
    """Description of an error in one sentence."""

    detail: str


class Status(BaseModel):
    status: str
