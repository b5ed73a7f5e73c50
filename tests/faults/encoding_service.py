"""The service in a process that knows the tiny encoder of the tests; its settings come through standard input."""

from __future__ import annotations

import sys

from kinrank.encoders import registry
from kinrank.web.processes.supervisor import main

if __name__ == "__main__":
    registry.ENCODERS["tiny"] = "web.tiny"
    sys.exit(main())
