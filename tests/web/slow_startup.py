"""`python -m web.slow_startup`: a service whose preparation is controlled through its standard input, for tests.

The first line is JSON: `settings` until then, `prepared` from then on, and `kept`, a file that is written when the work
is interrupted. Then lines of JSON follow: `[label, done, total]` is reported as progress, `"done"` ends the work,
`{"fail": words}` fails.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from kinrank.web.server.supervisor import run_service
from kinrank.web.settings import Settings


def main() -> int:
    order = json.loads(sys.stdin.readline())

    def prepare(progress: Callable[[str, int, int], None]) -> Settings:
        try:
            for line in iter(sys.stdin.readline, ""):
                message = json.loads(line)
                if message == "done":
                    break
                if isinstance(message, dict):
                    raise ValueError(message["fail"])
                progress(*message)
        except BaseException as error:
            Path(order["kept"]).write_text(type(error).__name__)
            raise
        return Settings.from_json(order["prepared"])

    def message(word: str) -> Callable[[str], None]:
        return lambda address: print(word, address, flush=True)

    try:
        return run_service(Settings.from_json(order["settings"]), message("ready"), prepare, message("preparing"))
    except KeyboardInterrupt:
        return 130
    except (ValueError, OSError) as error:
        print(f"kinrank: error: {error}", file=sys.stderr)
        return 2


class Slowly:
    """Handle of that process: sends it commands and reads its output."""

    def __init__(self, settings: Settings, prepared: Settings, kept: Path) -> None:
        tests = str(Path(__file__).resolve().parents[1])
        self.process = subprocess.Popen(
            [sys.executable, "-m", "web.slow_startup"],
            env={**os.environ, "PYTHONPATH": tests},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.tell({"settings": settings.to_json(), "prepared": prepared.to_json(), "kept": str(kept)})
        word, self.address = self.line().split()
        assert word == "preparing"

    def tell(self, message: Any) -> None:
        assert self.process.stdin is not None
        print(json.dumps(message), file=self.process.stdin, flush=True)

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def ready(self) -> None:
        """Wait until it reports that the service is ready."""
        assert self.line() == f"ready {self.address}"

    def ended(self) -> tuple[int, str]:
        """Wait for its end; return its exit code and its error output."""
        return self.process.wait(180), self.process.communicate()[1]


@contextlib.contextmanager
def slowly(settings: Settings, prepared: Settings, kept: Path) -> Iterator[Slowly]:
    made = Slowly(settings, prepared, kept)
    try:
        yield made
    finally:
        if made.process.poll() is None:
            made.process.kill()
        made.process.communicate()


if __name__ == "__main__":
    sys.exit(main())
