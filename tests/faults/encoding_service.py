"""The service in a process with the tiny test encoder; its settings come from standard input."""

from __future__ import annotations

import sys

from kinrank.encoders import encoder_registry
from kinrank.web.server.supervisor import main

if __name__ == "__main__":
    encoder_registry.ENCODERS["tiny"] = "web.tiny"
    sys.exit(main())
