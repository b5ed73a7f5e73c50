"""`kinrank rerank`: re-rank a gallery for every query and write the ranking."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

import kinrank
from kinrank.cli.input_files import (
    FeatureOptions,
    FilesOrStore,
    FilterOptions,
    IdColumn,
    open_database,
    parse_item_numbers,
    read_features,
    read_id_file,
)
from kinrank.cli.methods import MaxMemory, MethodName, parse_method
from kinrank.cli.option_groups import OptionGroup, option
from kinrank.cli.output import RankingFile, describe_ranking
from kinrank.errors import InputError
from kinrank.reranking.candidates import STORE_CANDIDATES, CandidateOption

if TYPE_CHECKING:
    from kinrank.stores import Store


def parse_candidates(text: str) -> CandidateOption:
    """Parse the value of --candidates: a number or "all"."""
    if text == "all":
        return "all"
    if not text.isdecimal():
        raise typer.BadParameter("give a whole number >= 1, or all")
    return int(text)


Candidates = Annotated[
    Any,  # a CandidateOption: typer accepts no union
    typer.Option(
        "--candidates",
        parser=parse_candidates,
        metavar="INTEGER|all",
        help="Re-rank this many nearest items per query, in a graph of their own, or all items in one graph. Default: "
        f"{STORE_CANDIDATES} with --store, else all.",
    ),
]


class RerankInputs(FilesOrStore):
    """Gallery, from files or a vector database, and queries, with their ids."""

    id_column: IdColumn = None
    query_id_column: str | None = option(None, "As --id-column, for the queries.")

    def read_gallery(self, store: Store | None, features: FeatureOptions) -> tuple[Any, list[Any] | None]:
        """Read the gallery, unless it is in a store, and the ids of its items."""
        if store is None:
            rows, names = read_features(self.gallery or [], self.id_column, self.item_ids, "item_ids")
            return features.combine(rows), names
        for flag, value in (
            ("--id-column", self.id_column),
            ("--item-ids", self.item_ids),
            ("--feature-weights", features.feature_weights),
        ):
            if value is not None:
                raise InputError(f"{flag} is for --gallery; leave it out with --store")
        return store, None

    def read_queries(self, item_names: list[Any] | None) -> tuple[Any, list[Any] | None]:
        """Read the queries and their ids. Without queries the items are the queries, with the ids of the items."""
        if self.queries:
            return read_features(
                self.queries, self.query_id_column, self.query_ids, "query_ids", column_name="query_id_column"
            )
        if self.query_id_column is not None:
            raise InputError(
                "--query-id-column needs --queries; without it the items are the queries, with the ids of --id-column"
            )
        return None, item_names if self.query_ids is None else read_id_file(self.query_ids)


class RerankMethod(OptionGroup):
    """Method, and how much of the gallery it ranks."""

    title = "Method"
    method: MethodName = "lpmt"
    k: int | None = option(None, "Number of results per query. Default: all.", "-k", "--k")
    candidates: Candidates = None
    expand: int = option(0, "Rounds in which neighbours of the best candidates are added to --candidates.", min=0)
    max_memory: MaxMemory = None


def rerank(
    context: typer.Context,
    inputs: RerankInputs,
    features: FeatureOptions,
    method: RerankMethod,
    filters: FilterOptions,
    output: RankingFile,
) -> None:
    """Re-rank a gallery for every query and write the ranking.

    \b
    kinrank rerank --queries q.npy --gallery g.npy -o ranking.npz
    kinrank rerank --queries q.npy --gallery g.npy --k1 60 --theta 0.3 -o run.trec
    kinrank rerank --gallery all.npz:vectors --method aqe --method-k 4 -k 100 -o ranking.csv
    kinrank rerank --gallery all.csv --id-column name -o - | head
    kinrank rerank --store 'postgresql://me@host/shop?table=items&vector=embedding&key=id' \\
        --queries q.npy --filter kind=shoe -o ranking.csv

    Every parameter of the method is a flag: `kinrank methods lpmt` lists those of LPMT with their meaning, default and
    range, `kinrank methods` lists all methods. --k1 60 and --k1=60 are the same, and so are dashes and underscores in
    names. The parameter k of a method is --method-k, because --k is the number of results. --answers says how many
    right answers a query usually has; if queries or items are texts of `kinrank embed`, the default is one.

    Vectors are read from npy, npz, csv, tsv, fvecs, bvecs, pkl, mat; with kinrank[io] also h5, parquet and safetensors.
    Queries and gallery share one graph (joint) unless --candidates is given; with --store each query has a graph of its
    500 nearest items, because --candidates all reads the whole database. One input can be -: a .npy or .csv file on
    standard input. An output never overwrites an input.
    """
    inputs.check_source()
    output.check(*inputs.paths, filters.where)
    parsed_method = parse_method(method.method, context.args, (*(inputs.gallery or ()), *(inputs.queries or ())))
    with open_database(inputs.store) as database:
        gallery, item_names = inputs.read_gallery(database, features)
        queries, query_names = inputs.read_queries(item_names)
        ranking = kinrank.rerank(
            queries,
            gallery,
            parsed_method,
            candidates=method.candidates,
            k=method.k,
            max_memory=method.max_memory,
            progress=output.progress,
            metric=features.metric,
            where=filters.read(inputs.store, lambda words: parse_item_numbers(words, item_names)),
            expand=method.expand,
        )
    output.save(ranking, query_names, item_names)
    facts = {"output": str(output.output), **describe_ranking(ranking)}
    if inputs.store is not None:
        facts["seconds_in"] = {part: round(value, 6) for part, value in ranking.meta.get("seconds_in", {}).items()}
    line = "{output}: {queries} queries x {depth} items, {mode}, {method}, {seconds:.2f} s"
    output.print_summary(line, facts, output.output)
