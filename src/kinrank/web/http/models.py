"""What requests may hold, and what answers hold: the OpenAPI description is made from these."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from kinrank.web.shown.encoding import LONGEST

Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Vector = Annotated[list[Number], Field(fail_fast=True, min_length=1, max_length=65_536)]  # told the first mistake only
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
Words = Annotated[str, Field(strict=True, max_length=LONGEST)]
Image = Annotated[str, Field(strict=True, max_length=2**25)]
Texts = Annotated[list[Words], Field(fail_fast=True)]
Images = Annotated[list[Image], Field(fail_fast=True)]


class Strict(BaseModel):
    """A name that nobody knows is an error: it would be a setting that does nothing."""

    model_config = ConfigDict(extra="forbid")


class Search(Strict):
    """Who asks, given as vectors, ids of items, numbers of queries, texts or pictures; and for what."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"vectors": [[0.1, 0.9, 0.2]], "k": 10},
                {"ids": ["beach_17"], "k": 10},
                {"ids": ["beach_17"], "method": "k-reciprocal", "parameters": {"k1": 20}, "candidates": 500},
            ]
        },
    )
    vectors: Vectors | None = Field(None, description="One row of numbers per query.")
    ids: Ids | None = Field(None, description="Items of the gallery to use as queries; none is its own result.")
    queries: Numbers | None = Field(None, description="Numbers of queries that the service was started with.")
    texts: Texts | None = Field(
        None, description="Words that describe what is looked for, where the service can encode them."
    )
    images: Images | None = Field(
        None, description="The bytes of pictures, in base64, where the service can encode them."
    )
    k: Whole = Field(10, description="How many results per query.")
    depth: Whole | None = Field(None, description="How many to return; those behind the first k are less certain.")
    budget: Whole | None = Field(None, description="The most items to examine; more is slower and more certain.")
    max_distance: Number | None = Field(None, description="Items farther than this are left out.")
    where: Ids | dict[str, Any] | None = Field(
        None, description="Only these items are results; over a database also a mapping of columns to values."
    )
    positives: Ids | Lists | None = Field(None, description="Items that are right.")
    negatives: Ids | Lists | None = Field(None, description="Items that are wrong.")
    groups: Ids | None = Field(None, description="A label per vector: those of one label are one query.")
    method: Text | None = Field(None, description="Another method than the prepared one, over candidates only.")
    parameters: Parameters = Field({}, description="Parameters of the method.")
    candidates: Whole | None = Field(None, description="How many of the nearest items such a method re-ranks.")
    min_version: Version | None = Field(None, description="Wait until this change is known to whoever answers.")


class Searched(BaseModel):
    """Nearest first, a row per query; rows may be shorter than k."""

    ids: list[list[Id]]
    distances: list[list[float]]
    query_ids: list[Id] | None
    mode: str = Field(description="online: the prepared gallery; candidates: a graph of the nearest items only.")
    method: str
    certain: float | None = Field(description="The share of queries whose k best are certain.")
    seconds: float
    version: int


class Rerank(Strict):
    """A query and the vectors that some search found for it."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"query": [0.1, 0.9], "vectors": [[0.9, 0.1], [0.2, 0.8]], "top_n": 2}]},
    )
    query: Vector
    vectors: Vectors
    method: Text = "lpmt"
    parameters: Parameters = {}
    top_n: Annotated[int, Field(strict=True, ge=1)] | None = None
    metric: Text | None = None


class Result(BaseModel):
    index: int = Field(description="The place of the vector among those that were sent.")
    relevance_score: float = Field(description="Larger is better, for the vectors of this query only.")


class Reranked(BaseModel):
    results: list[Result]
    mode: str
    method: str
    seconds: float


class Explain(Strict):
    """Who asks, once; and the item whose chain is wanted."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"id": "beach_17", "item": "beach_31", "flows": 5}]}
    )
    vector: Vector | None = None
    id: Id | None = None
    query: Whole | None = None
    item: Id
    flows: Annotated[int, Field(strict=True, ge=0, le=1000)] = 5
    min_version: Version | None = None


class Put(Strict):
    """Items to add; with `replace`, those whose ids are there already take the place of those."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"vectors": [[0.1, 0.9, 0.2]], "ids": ["beach_18"]}]}
    )
    vectors: Vectors
    ids: Ids | None = None
    replace: Annotated[bool, Field(strict=True)] = False


class Remove(Strict):
    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"ids": ["beach_18"]}]})
    ids: Ids


class Observe(Strict):
    """Queries to remember: vectors, texts or pictures."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"vectors": [[0.1, 0.9, 0.2]]}]})
    vectors: Vectors | None = Field(None, description="One row of numbers per query.")
    texts: Texts | None = Field(None, description="Words that were searched for, where the service can encode them.")
    images: Images | None = Field(
        None, description="The bytes of pictures, in base64, where the service can encode them."
    )


class Changed(BaseModel):
    """An acknowledged change: it survives whatever happens to the process."""

    version: int = Field(description="Send it as min_version to see this change, whichever process answers.")
    added: int
    replaced: int
    removed: int
    items: int = Field(description="How many items there are now.")
    ids: Ids | None = Field(description="The ids of what was added.")
    observed: int = Field(description="How many queries were taken in; near-copies among them are left out later.")


class Query(Strict):
    """Who asks on the page: one of the three."""

    item: Id | None = None
    query: Whole | None = None
    vector: Vector | None = None


class Rank(Strict):
    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"query": {"query": 3}, "k": 20}]})
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


class Upload(Strict):
    """A picture or a text, one of the two."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"text": "a dog on a beach"}]})
    image: Image | None = Field(None, description="The bytes of a picture, in base64.")
    text: Words | None = None


class Token(Strict):
    token: Text


class Problem(BaseModel):
    """What went wrong, in a sentence."""

    detail: str


class Status(BaseModel):
    status: str
