"""The documentation of the API matches the service: its examples are sent, and its tables compared."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinrank as kr

pytest.importorskip("fastapi", reason="fastapi is not installed: pip install '.[web]'")

from fastapi.testclient import TestClient

from kinrank.pictures.images import MAX_PIXELS
from kinrank.web.http.json_responses import STATUS_MEANINGS
from kinrank.web.http.request_models import Explain, Rerank, Search
from kinrank.web.query_encoder import MAX_TEXT_CHARACTERS, MAX_UPLOADS
from kinrank.web.settings import Limits
from web.small_service import client, settings_in

pytestmark = pytest.mark.slow

DOCS = Path(__file__).resolve().parents[2] / "docs" / "service"
API = (DOCS / "api.md").read_text("utf-8")
HERE = "http://127.0.0.1:8000"
EXACT = ("ids", "names", "chain", "rank_before", "rank_after", "mode", "method", "added", "items")  # never rounded


def sections() -> dict[str, str]:
    parts = re.split(r"^## (.+)$", API, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def calls(text: str) -> list[dict[str, Any]]:
    """Return the curl commands of a section as requests."""
    blocks = "\n".join(re.findall(r"^```console\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL))
    found = []
    for line in filter(None, blocks.replace("\\\n", " ").splitlines()):
        words = shlex.split(line.removeprefix("$ "))
        assert words[:2] == ["curl", "-s"]
        url = next(word for word in words if word.startswith(HERE))
        body = words[words.index("-d") + 1] if "-d" in words else None
        verb = words[words.index("-X") + 1] if "-X" in words else "GET" if body is None else "POST"
        headers = dict(re.findall(r"^(.+?): (.+)$", "\n".join(words), flags=re.MULTILINE))
        headers = {name: value for name, value in headers.items() if name == "Content-Type"}
        found.append({"method": verb, "url": url.removeprefix(HERE), "content": body, "headers": headers})
    return found


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """Service over the gallery that the documentation builds."""
    folder = tmp_path_factory.mktemp("documented")
    (block,) = re.findall(r"^```py\n(.*?)^```", API, flags=re.MULTILINE | re.DOTALL)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        exec(compile(block, "the gallery of api.md", "exec"), {})
    ids = (folder / "names.txt").read_text("utf-8").splitlines()
    kr.Manifold.build(np.load(folder / "gallery.npy"), ids=ids).save(folder / "gallery.manifold")
    with client(settings_in(folder)) as made:
        yield made


@pytest.mark.parametrize("part", [name for name, text in sections().items() if calls(text)])
def test_examples_are_answered_as_shown(service: TestClient, part: str) -> None:
    text = sections()[part]
    answers = []
    for call in calls(text):
        answer = service.request(**call)
        assert answer.status_code == 200, f"{call}: {answer.text}"
        answers.append(answer)
    shown = re.findall(r"^```json\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    if shown:
        message, found = json.loads(shown[0]), answers[0].json()
        assert shape(message) == shape(found)
        assert [message.get(name) for name in EXACT] == [found.get(name) for name in EXACT]


def shape(value: Any) -> Any:
    """Return all nested keys; of a list those of its first entry."""
    if isinstance(value, dict):
        return {key: shape(one) for key, one in value.items()}
    if isinstance(value, list):
        return [shape(one) for one in value[:1]]
    return None


@pytest.mark.parametrize(("part", "kind"), [("Search", Search), ("Re-rank", Rerank)])
def test_every_key_is_explained(part: str, kind: Any) -> None:
    table = "\n".join(line.split("|")[1] for line in sections()[part].splitlines() if line.startswith("| `"))
    assert set(re.findall(r"`(\w+)`", table)) == set(kind.model_fields)


def test_keys_of_an_explanation_are_named() -> None:
    assert all(f"`{name}`" in API or f'"{name}"' in API for name in Explain.model_fields)


def test_every_endpoint_is_documented(service: TestClient) -> None:
    paths = service.get("/openapi.json").json()["paths"]
    known = [path.partition("{")[0] for path in paths if path.startswith("/v1/")]
    assert known
    assert [path for path in known if path not in API] == []


def test_every_status_has_its_row() -> None:
    listed = {int(number) for number in re.findall(r"^\| (\d{3}) \|", sections()["Errors"], flags=re.MULTILINE)}
    assert set(STATUS_MEANINGS) <= listed


def test_limits_are_those_of_the_service() -> None:
    """Each value in the table is a default of the settings or of a flag of the command."""
    from kinrank.cli.serve import ServerOptions

    table, limits = sections()["Limits"], Limits()
    given = vars(ServerOptions())
    for message in (
        f"| {given['max_body'] // 2**20} MB: about",
        f"| {given['max_k']} | `--max-k` |",
        f"| {given['timeout']:g} | `--timeout` |",
        f"| {given['concurrency']} | `--concurrency` |",
        f"or with `texts` or `images` | {limits.rerank_waiting} |",
        f"| {limits.rerank_seconds:g}: a third of `--timeout` | `--timeout` |",
        f"| queries per search | {limits.queries} |",
        f"`candidates` | {limits.candidates} |",
        f"adds or removes, vectors that it observes | {limits.items // 1000} 000 |",
        f"characters of a text | {MAX_UPLOADS}, {MAX_TEXT_CHARACTERS // 1000} 000 |",
        f"| pixels of a picture | {MAX_PIXELS // 10**6} million |",
        f"| {limits.header_bytes // 2**10} kB, {limits.header_seconds:g} s |",
        f"per process | {limits.connections} |",
    ):
        assert message in table, message


def test_the_first_page_has_the_defaults_of_the_command() -> None:
    from kinrank.cli.serve import ServerOptions

    page = (DOCS / "README.md").read_text("utf-8")
    given = vars(ServerOptions())
    assert f"| {given['host']}, {given['port']} |" in page
    assert (
        f"{given['max_body'] // 2**20} MB, {given['max_k']}, {given['timeout']:g} s, {given['concurrency']} |" in page
    )


def test_every_metric_is_explained(service: TestClient) -> None:
    page = (DOCS / "operate.md").read_text("utf-8")
    names = set(re.findall(r"^# TYPE (\w+) ", service.get("/metrics").text, flags=re.MULTILINE))
    explained = set(re.findall(r"^\| `(\w+)", page, flags=re.MULTILINE))
    assert explained == {name for name in names if not name.endswith("_created")}
