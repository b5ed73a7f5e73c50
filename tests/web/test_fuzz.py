"""Valid and invalid requests generated from the OpenAPI description: none gets a 500, and the service keeps running.

`make test-web` spends SERVICE_SECONDS on it (25 unless given); `make fuzz-web` five minutes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

pytest.importorskip("fastapi", reason="the service needs the extra [web]")
pytest.importorskip("schemathesis", reason="`make test-web` installs it")

from web import tiny
from web.small_service import listening, settings_in

pytestmark = pytest.mark.slow

SECONDS = int(os.environ.get("SERVICE_SECONDS", "25"))
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"


def test_requests_of_all_kinds_get_an_answer_that_is_described(tmp_path: Path) -> None:
    program = Path(sys.executable).parent / "schemathesis"
    with tiny.known() as recipe, listening(settings_in(tmp_path, encoder=recipe)) as address:
        command = [str(program), "run", f"{address}/openapi.json", "--max-time", str(SECONDS), "--checks", CHECKS]
        command += ["--phases", "examples,coverage,fuzzing", "--suppress-health-check", "all", "--no-shrink"]
        command += ["--generation-database", "none", "--no-color", "--warnings", "off", "--continue-on-failure"]
        command += ["--request-timeout", "60", "--max-examples", "100000"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS + 120, check=False, cwd=tmp_path)
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
        assert httpx.get(f"{address}/ready", timeout=120).status_code == 200
        answers = httpx.get(f"{address}/metrics", timeout=120).text
        assert 'status="500"' not in answers
        for route in ("search", "rerank", "explain"):
            assert f'route="/v1/{route}",status="200"' in answers, "not only refusals"
