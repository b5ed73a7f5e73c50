"""`kinrank serve`: a prepared gallery, or vectors -> a page and an HTTP service on this machine."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from kinrank.cli.encoding import Content, Encoder, TextColumn, TextIds, with_encoder
from kinrank.cli.output import Quiet, bars
from kinrank.deferred import needed
from kinrank.encoders import Options
from kinrank.files.scratch import scratch_folder
from kinrank.progress import Show, both

File = Path | None
SHORTEST = 8  # characters of a token

Source = Annotated[
    File,
    typer.Argument(
        help="A folder or .zip of pictures; texts, as for `kinrank embed`; a folder of `kinrank build`; a file of "
        "vectors; or a folder of published sets such as ROxford5k. Without: toys drawn on the spot."
    ),
]
Images = Annotated[File, typer.Option("--images", help="Folder or .zip of pictures, named as the items.")]
Texts = Annotated[File, typer.Option("--texts", help="The text of every item: .txt .csv .tsv .json .jsonl .parquet.")]
Labels = Annotated[File, typer.Option("--labels", help="The label of every item: .txt, .npy, .npz or .csv.")]
Truth = Annotated[File, typer.Option("--truth", help="What is right for the --queries: .pkl, qrels .txt, or labels.")]
Queries = Annotated[File, typer.Option("--queries", help="Vectors of queries that can be picked on the page.")]
Names = Annotated[File, typer.Option("--query-names", help="Text file of their names, one per line.")]
QueryLabels = Annotated[File, typer.Option("--query-labels", help="The label of every query.")]
Ids = Annotated[
    File,
    typer.Option(
        "--ids",
        help="Text file of item names, one per line: of the vectors in a file; of a prepared gallery, those that "
        "--labels and --texts were written for.",
    ),
]
Key = Annotated[str | None, typer.Option("--gallery-key", help="Which array of an .npz, .h5, .mat or .safetensors.")]
Set = Annotated[str | None, typer.Option("--set", help="Which of several published sets in a folder.")]
Keep = Annotated[
    File,
    typer.Option(
        "--keep", help="The folder where the gallery of pictures or texts stays. Without: in this user's cache."
    ),
]
StoreUrl = Annotated[
    str | None, typer.Option("--store", help="URL of the vector database that the gallery is built over.")
]
Host = Annotated[str, typer.Option("--host", help="Where to listen; any other than this machine needs a --token.")]
Port = Annotated[int, typer.Option("--port", min=0, max=65535, help="0 takes one that is free.")]
Tokens = Annotated[
    list[str] | None,
    typer.Option(
        "--token",
        help="read:READ-SECRET may read, write:WRITE-SECRET may also change items; `openssl rand -hex 16` makes a "
        "secret. As often as needed; better in the environment variable KINRANK_TOKENS, with commas between them.",
    ),
]
Workers = Annotated[int, typer.Option("--workers", min=1, max=64, help="How many processes answer.")]
Body = Annotated[int, typer.Option("--max-body", min=1024, max=2**30, help="Bytes of a request.")]
MostResults = Annotated[int, typer.Option("--max-k", min=1, max=100_000, help="Results per query.")]
Timeout = Annotated[float, typer.Option("--timeout", min=0.1, max=3600, help="Seconds per request.")]
Concurrency = Annotated[
    int,
    typer.Option(
        "--concurrency", min=1, help="Requests that are computed or wait, per process; more are answered 503."
    ),
]
Watch = Annotated[
    bool, typer.Option("--watch", help="Follow the folder: what comes, changes or goes there is taken over.")
]
Open = Annotated[bool, typer.Option("--open", help="Open the page in a browser.")]


@with_encoder
def serve(
    source: Source = None,
    images: Images = None,
    texts: Texts = None,
    labels: Labels = None,
    truth: Truth = None,
    queries: Queries = None,
    query_names: Names = None,
    query_labels: QueryLabels = None,
    ids: Ids = None,
    gallery_key: Key = None,
    set_name: Set = None,
    encoder: Encoder = None,
    options: Options = Options(),  # noqa: B008 - its flags come from with_encoder
    content: Content = None,
    column: TextColumn = None,
    id_column: TextIds = None,
    keep: Keep = None,
    watch: Watch = False,
    store: StoreUrl = None,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    token: Tokens = None,
    workers: Workers = 1,
    max_body: Body = 16 * 2**20,
    max_k: MostResults = 1000,
    timeout: Timeout = 30.0,
    concurrency: Concurrency = 128,
    open_page: Open = False,
    quiet: Quiet = False,
) -> None:
    """Serve a page that shows why an item moved, and an HTTP service, until Ctrl-C.

    \b
    kinrank serve
    kinrank serve photos --watch --open
    kinrank serve notes.csv --column body
    kinrank serve gallery.manifold --images photos
    kinrank serve g.npy --ids names.txt --images photos.zip --labels labels.txt
    kinrank serve gallery.manifold --host 0.0.0.0 --token read:READ-SECRET --token write:WRITE-SECRET --workers 4

    It listens on this machine only, unless --host says otherwise. Pictures and texts are encoded first, while the page
    shows how far that is; the next start encodes only what is new, and pictures or words search them. Such a gallery,
    and one that `kinrank build` wrote, can be changed over HTTP: a change is acknowledged when it would survive a
    crash. Vectors from a file are prepared for this run only. The API is described at /openapi.json.
    """
    needed("fastapi", "kinrank serve", "web")
    from kinrank.web.http.guard import is_local
    from kinrank.web.processes.supervisor import run
    from kinrank.web.settings import Limits, Settings
    from kinrank.web.sources.source import settings_for

    readers, writers = tokens_of(token)
    if not is_local(host) and not readers + writers:
        raise ValueError(f"--host {host} lets others reach this service; say who may with --token, or leave --host out")
    if watch and readers and not writers:
        raise ValueError("--watch changes the gallery; give a --token write:SECRET, too")
    limits = Limits(body=max_body, k=max_k, seconds=timeout, waiting=concurrency)
    with scratch_folder() as scratch:
        common: dict[str, Any] = {
            "host": host, "port": port, "read_tokens": readers, "write_tokens": writers, "workers": workers,
            "limits": limits, "cache": cache_folder(),
        }  # fmt: skip

        def prepare(progress: Show) -> Settings:
            made = settings_for(
                source, images=images, texts=texts, labels=labels, truth=truth, queries=queries,
                query_names=query_names, query_labels=query_labels, ids=ids, gallery_key=gallery_key,
                set_name=set_name, store=store, encoder=encoder, options=options, content=content, column=column,
                id_column=id_column, keep=keep, scratch=scratch, progress=page.heard(both(progress, bars(quiet))),
                tell=None if quiet else note, **common,
            )  # fmt: skip
            if watch and not made.follows:
                raise ValueError("--watch follows a folder of pictures, or texts, and this is none; leave it out")
            last[0] = made
            return made

        def announce(address: str) -> None:
            title = last[0].title
            print(address if quiet else f"{title}: {address}   (Ctrl-C stops it)", flush=True)
            if open_page and not page.told:
                show(address)
            if watch:
                following(last[0], address, writers, quiet)

        page = Waiting(quiet, open_page)
        named = "toys" if source is None else source.name or str(source)
        last = [Settings(manifold="", title=named, scratch=str(scratch), **common)]
        raise typer.Exit(run(last[0], announce, prepare, page.at))


class Waiting:
    """Tells where to look while a gallery is prepared, once the preparation says that it will take a while."""

    def __init__(self, quiet: bool, open_page: bool) -> None:
        self._quiet, self._open, self._address, self.told = quiet, open_page, "", False

    def at(self, address: str) -> None:
        self._address = address

    def heard(self, progress: Any) -> Any:
        """What is told to `progress`, which is a sign that this takes a while."""

        def told(label: str, done: int, total: int) -> None:
            if not self.told:
                self.told = True
                if not self._quiet:
                    note(f"getting ready: {self._address} shows how far it is")
                if self._open:
                    show(self._address)
            progress(label, done, total)

        return told


def following(settings: Any, address: str, writers: Sequence[str], quiet: bool) -> None:
    """Follow what the gallery was made of, in a thread that ends with the process; changes go through the service."""
    from kinrank.watching import Followed, Ledger, ServiceTarget
    from kinrank.watching.loop import watch
    from kinrank.watching.places import Watched
    from kinrank.web.sources.encoded import texts_in
    from kinrank.web.sources.served import written

    place = Ledger.beside(settings.manifold)
    ledger = Ledger.load(place)
    if ledger is None:
        raise ValueError(f"{place} is gone, so that nothing can be followed; start the service again")
    here = address.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
    seen = Watched(ledger, place, ServiceTarget(here, next(iter(writers), None)), ledger.recipe)

    def tell(found: Followed) -> None:
        after = Ledger.load(place)
        if settings.files.texts is not None and after is not None:
            written(Path(settings.files.texts), texts_in(after))  # the page shows them, too
        if not quiet:
            note(str(found))

    threading.Thread(target=watch, args=(seen, 2.0, None, tell, note), daemon=True).start()


def show(address: str) -> None:
    """Open the page in a browser, if there is one."""
    with contextlib.suppress(webbrowser.Error):
        webbrowser.open(address)


def note(words: str) -> None:
    """What is worth knowing before the page is there."""
    print(words, file=sys.stderr)


def tokens_of(given: list[str] | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Who may read, and who may write: from the flags, else from the environment."""
    words: list[str] = given or [word for word in os.environ.get("KINRANK_TOKENS", "").split(",") if word]
    found: dict[str, list[str]] = {"read": [], "write": []}
    for word in words:
        role, colon, secret = word.strip().partition(":")
        if not colon or role not in found:
            raise ValueError("a --token is read:SECRET or write:SECRET; say which, so that nobody may more than meant")
        if len(secret) < SHORTEST or not secret.isascii() or not secret.isprintable() or " " in secret or ";" in secret:
            raise ValueError(
                f"a --token needs a secret of at least {SHORTEST} letters and digits, without blanks; make one with: "
                "openssl rand -hex 16"
            )
        found[role].append(secret)
    return tuple(found["read"]), tuple(found["write"])


def cache_folder() -> str:
    """Where thumbnails stay from one run to the next; "" where nothing can be written there."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder: Any = Path(home) / "kinrank" / "thumbnails"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return str(folder) if os.access(folder, os.W_OK) else ""
    except OSError:
        return ""
