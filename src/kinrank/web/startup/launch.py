"""Launch: one run of a service, from the preparation of its gallery until it is stopped."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import webbrowser
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kinrank.errors import InputError
from kinrank.files.user_folders import cache_folder, scratch_folder
from kinrank.progress import ProgressOption, tee_progress
from kinrank.sync_folder import Ledger, ServiceTarget, SyncResult
from kinrank.sync_folder.setup import SyncSetup
from kinrank.sync_folder.sync import watch_source
from kinrank.web.http.request_guard import is_local
from kinrank.web.server.supervisor import run_service
from kinrank.web.settings import Settings
from kinrank.web.startup.folder_vectors import read_texts
from kinrank.web.startup.gallery_source import GallerySource
from kinrank.web.startup.scratch_files import write_json
from kinrank.web.startup.service_setup import ignore_note, prepare_service

WATCH_SECONDS = 2.0  # between two checks of a watched source


@dataclass(frozen=True)
class Launch:
    """One run of a service.

    Attributes:
        source: what to serve.
        settings: address, files, tokens and limits; the gallery is prepared by `run`.
        watch: True to watch the source, and apply its changes to the gallery.
        open_page: True to open the page in a browser.
        quiet: True to print only the address.
        progress: how to report the preparation on stderr, if not quiet.
    """

    source: GallerySource
    settings: Settings
    watch: bool = False
    open_page: bool = False
    quiet: bool = False
    progress: ProgressOption = None

    def run(self) -> int:
        """Serve until Ctrl-C or SIGTERM, and return the exit code."""
        self._check()
        notice = StartupNotice(self.quiet, self.open_page)
        with scratch_folder() as scratch:
            place = self.source.source
            title = "toys" if place is None else Path(place).name or str(place)
            base = replace(self.settings, title=title, scratch=str(scratch), cache=find_thumbnail_cache())
            current = [base]

            def prepare(progress: ProgressOption) -> Settings:
                current[0] = prepare_service(
                    self.source,
                    base,
                    progress=notice.wrap(tee_progress(progress, self.progress)),
                    tell=ignore_note if self.quiet else print_note,
                )
                if self.watch and not current[0].follows:
                    raise InputError("is for a folder of images, or texts", parameter="watch", remedy="leave it out")
                return current[0]

            def announce(address: str) -> None:
                title = current[0].title
                print(address if self.quiet else f"{title}: {address}   (Ctrl-C stops it)", flush=True)
                if self.open_page and not notice.is_given:
                    open_browser(address)
                if self.watch:
                    follow_source(current[0], address, self.quiet)

            return run_service(base, announce, prepare, notice.set_address)

    def _check(self) -> None:
        """Refuse a service that other machines could use without a token, and `watch` without a token for changes."""
        readers, writers = self.settings.read_tokens, self.settings.write_tokens
        if not is_local(self.settings.host) and not readers + writers:
            raise InputError(
                "opens this service to other machines",
                parameter="host",
                given=self.settings.host,
                remedy="protect it with `token`, or leave out `host`",
            )
        if self.watch and readers and not writers:
            raise InputError("changes the gallery", parameter="watch", remedy="also give `token=write:SECRET`")


class StartupNotice:
    """Notice of the address that shows the progress, given once the preparation reports that it takes a while.

    Attributes:
        is_given: True after the notice was given.
    """

    def __init__(self, quiet: bool, open_page: bool) -> None:
        self._quiet, self._open, self._address, self.is_given = quiet, open_page, "", False

    def set_address(self, address: str) -> None:
        self._address = address

    def wrap(self, progress: Any) -> Any:
        """Wrap a progress callback: its first call gives the notice."""

        def report(label: str, done: int, total: int) -> None:
            if not self.is_given:
                self.is_given = True
                if not self._quiet:
                    print_note(f"getting ready: {self._address} shows the progress")
                if self._open:
                    open_browser(self._address)
            progress(label, done, total)

        return report


def follow_source(settings: Settings, address: str, quiet: bool) -> None:
    """Watch the source of the gallery in a daemon thread, and apply its changes through the service."""
    ledger_path = Ledger.path_for(settings.manifold)
    ledger = Ledger.load(ledger_path)
    if ledger is None:
        raise InputError(f"{ledger_path} is missing, so the source cannot be watched; restart the service")
    local_address = address.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
    target = ServiceTarget(local_address, next(iter(settings.write_tokens), None))
    setup = SyncSetup(ledger, ledger_path, target, ledger.recipe)

    def report(result: SyncResult) -> None:
        after = Ledger.load(ledger_path)
        if settings.files.texts is not None and after is not None:
            write_json(Path(settings.files.texts), read_texts(after))  # for the page
        if not quiet:
            print_note(str(result))

    threading.Thread(target=watch_source, args=(setup, WATCH_SECONDS, None, report, print_note), daemon=True).start()


def open_browser(address: str) -> None:
    """Open the page in a browser, if there is one."""
    with contextlib.suppress(webbrowser.Error):
        webbrowser.open(address)


def print_note(text: str) -> None:
    """Print a message to stderr."""
    print(text, file=sys.stderr)


def find_thumbnail_cache() -> str:
    """Return the folder that stores thumbnails between runs, or "" if it is not writable."""
    folder = cache_folder("thumbnails")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return str(folder) if os.access(folder, os.W_OK) else ""
    except OSError:
        return ""
