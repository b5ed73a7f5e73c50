"""`kinrank serve`: a web page and an HTTP API for a gallery."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from kinrank.cli.encoder_options import ContentOptions, EncoderOptions
from kinrank.cli.option_groups import File, OptionGroup, option
from kinrank.cli.output import QuietOption
from kinrank.lazy_import import import_extra

Source = Annotated[
    File,
    typer.Argument(
        help="Folder or .zip of images; texts, as for `kinrank embed`; folder written by `kinrank build`; file of "
        "vectors, or FILE:KEY; or folder of published sets such as ROxford5k. Default: drawn toy images."
    ),
]


class PageFiles(OptionGroup):
    """Files to show with the vectors."""

    title = "Files to show"
    images: File = option(None, "Folder or .zip of images, named like the items.")
    texts: File = option(None, "Text of every item: .txt .csv .tsv .json .jsonl .parquet.")
    labels: File = option(None, "Label of every item: .txt, .npy, .npz or .csv.")
    truth: File = option(None, "Relevant items of the --queries: .pkl, qrels .txt, or labels.")
    queries: File = option(None, "Query vectors to choose from on the page.")
    query_names: File = option(None, "Text file with the names of the queries, one per line.")
    query_labels: File = option(None, "Label of every query.")


class SourceOptions(ContentOptions):
    """Kind of the source, and where its gallery is kept."""

    title = "Source"
    ids: File = option(
        None,
        "Text file with ids, one per line: of the vectors in a file; for a prepared gallery, the ids of "
        "--labels and --texts.",
    )
    set_name: str | None = option(None, "Name of a published set in the folder.", "--set")
    store: str | None = option(None, "URL of the vector database the gallery was built from.")
    keep: File = option(None, "Folder for the gallery of images or texts. Default: in the cache of this user.")
    watch: bool = option(False, "Watch the folder, and apply its changes to the gallery.")


class ServerOptions(QuietOption):
    """Address, tokens and limits of the service."""

    title = "Server"
    host: str = option("127.0.0.1", "Address to listen on; any other than this machine needs --token.")
    port: int = option(8000, "Port; 0 chooses a free one.", min=0, max=65535)
    token: list[str] | None = option(
        None,
        "read:READ-SECRET can read, write:WRITE-SECRET can also change items; `openssl rand -hex 16` makes "
        "one. Repeat it for several; better use the environment variable KINRANK_TOKENS, separated by commas.",
    )
    workers: int = option(1, "Number of worker processes.", min=1, max=64)
    max_body: int = option(16 * 2**20, "Maximum bytes per request.", min=1024, max=2**30)
    max_k: int = option(1000, "Maximum number of results per query.", min=1, max=100_000)
    timeout: float = option(30.0, "Maximum seconds per request.", min=0.1, max=3600)
    concurrency: int = option(128, "Running and waiting requests per process; further ones get status 503.", min=1)
    open_page: bool = option(False, "Open the page in a browser.", "--open")


def serve(
    content: SourceOptions, files: PageFiles, encoder: EncoderOptions, server: ServerOptions, source: Source = None
) -> None:
    """Serve a web page that explains re-ranking, and an HTTP API, until Ctrl-C.

    \b
    kinrank serve
    kinrank serve photos --watch --open
    kinrank serve notes.csv --column body
    kinrank serve gallery.manifold --images photos
    kinrank serve g.npy --ids names.txt --images photos.zip --labels labels.txt
    kinrank serve gallery.manifold --host 0.0.0.0 --token read:READ-SECRET --token write:WRITE-SECRET --workers 4

    It listens on this machine only, unless --host is given. Images and texts are encoded first, while the page shows
    the progress; the next start only encodes new ones. They can be searched by images or words. Such a gallery, and one
    written by `kinrank build`, can be changed over HTTP: a change is acknowledged when it would survive a crash.
    Vectors from a file are prepared for this run only. The API is described at /openapi.json.
    """
    import_extra("fastapi", "kinrank serve", "web")
    from kinrank.web.settings import Files, Limits, Settings, parse_tokens
    from kinrank.web.startup.gallery_source import GallerySource
    from kinrank.web.startup.launch import Launch

    readers, writers = parse_tokens(server.token)
    settings = Settings(
        manifold="",
        files=Files(**{name: None if path is None else str(path) for name, path in asdict(files).items()}),
        read_tokens=readers,
        write_tokens=writers,
        host=server.host,
        port=server.port,
        workers=server.workers,
        limits=Limits(body=server.max_body, k=server.max_k, seconds=server.timeout, waiting=server.concurrency),
    )
    gallery = GallerySource(
        source,
        ids=content.ids,
        id_column=content.id_column,
        set_name=content.set_name,
        store=content.store,
        encoder=encoder.encoder,
        options=encoder.options,
        content=content.content,
        column=content.column,
        keep=content.keep,
    )
    launch = Launch(gallery, settings, content.watch, server.open_page, server.quiet, server.progress)
    raise typer.Exit(launch.run())
