"""Dockerfile and compose file: they cannot be built here, so their contents are read and compared."""

from __future__ import annotations

import functools
import json
import operator
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kinrank.stores.url import ENGINES, StoreUrl

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover
    tomllib = pytest.importorskip("tomli")

yaml: Any = pytest.importorskip("yaml", reason="PyYAML is not installed; mkdocs brings it")

ROOT = Path(__file__).resolve().parents[2]
INSTRUCTIONS = re.findall("[A-Z]+", "FROM RUN COPY WORKDIR USER ENV VOLUME EXPOSE HEALTHCHECK ENTRYPOINT CMD")
OF_A_SERVICE = re.findall(
    "[a-z_]+",
    "build cap_drop command depends_on environment healthcheck image networks ports read_only restart security_opt "
    "stop_grace_period tmpfs volumes",
)


def steps(text: str) -> list[tuple[str, str]]:
    """Return (instruction, arguments) of a Dockerfile, with continued lines joined and without comments."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n", " ", "\n".join(lines))
    found = [line.split(None, 1) for line in joined.splitlines() if line.strip()]
    return [(name, words.strip()) for name, words in found]


@pytest.fixture(scope="module")
def recipe() -> list[tuple[str, str]]:
    return steps((ROOT / "Dockerfile").read_text("utf-8"))


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    made: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))
    return made


def last(recipe: list[tuple[str, str]], name: str) -> str:
    return [words for step, words in recipe if step == name][-1]


def parses(words: list[str]) -> dict[str, Any]:
    """Parse a command as the command line does."""
    import typer

    from kinrank.cli.app import app

    command: Any = typer.main.get_command(app)
    command = command.get_command(None, words[0])
    found: dict[str, Any] = command.make_context(words[0], list(words[1:])).params
    return found


def test_every_instruction_is_one(recipe: list[tuple[str, str]]) -> None:
    assert {name for name, _ in recipe} <= set(INSTRUCTIONS)
    assert recipe[0][0] == "FROM"
    for name in ("ENTRYPOINT", "CMD"):
        assert isinstance(json.loads(last(recipe, name)), list), "a list: signals reach the program itself"


def test_images_are_named_with_their_version(recipe: list[tuple[str, str]], compose: dict[str, Any]) -> None:
    bases = [words.split()[0] for name, words in recipe if name == "FROM"]
    assert set(bases) == {"python:3.12-slim"}
    assert re.fullmatch(r"pgvector/pgvector:pg\d+", compose["services"]["database"]["image"])


def test_copied_files_exist_and_are_not_ignored(recipe: list[tuple[str, str]]) -> None:
    ignored = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    assert "*" in ignored
    copied = [words.split()[:-1] for name, words in recipe if name == "COPY" and "--from" not in words]
    for source in functools.reduce(operator.iadd, copied, []):
        assert (ROOT / source).exists(), source
        assert f"!{source}" in ignored, f"{source} does not reach the builder"
    allowed = {line[1:] for line in ignored if line.startswith("!")}
    assert allowed == set(functools.reduce(operator.iadd, copied, [])), "nothing else reaches the builder"


def test_files_of_the_package_are_copied(recipe: list[tuple[str, str]]) -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    readme = settings["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["fragments"][0]["path"]
    copied = " ".join(words for name, words in recipe if name == "COPY").split()
    assert {readme, *settings["project"]["license-files"], "pyproject.toml", "src"} <= set(copied)


def test_extras_exist(recipe: list[tuple[str, str]]) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    groups = re.findall(r"\.\[([\w,-]+)\]", " ".join(words for name, words in recipe if name == "RUN"))
    assert groups
    assert {extra for group in groups for extra in group.split(",")} <= set(extras)


def test_loops_are_compiled_into_the_image(recipe: list[tuple[str, str]]) -> None:
    compiling = [words for name, words in recipe if name == "RUN" and "kinrank warmup" in words]
    assert len(compiling) == 1
    words = shlex.split(compiling[0].split("/kinrank warmup", 1)[1])
    parses(["warmup", *words])
    assert "NUMBA_CACHE_DIR" not in " ".join(words for _, words in recipe), (
        "machine code next to the sources would be ignored"
    )


def test_it_does_not_run_as_root(recipe: list[tuple[str, str]]) -> None:
    user = last(recipe, "USER").split(":")[0]
    assert user.isdigit()
    assert int(user) >= 1000
    assert f"--uid {user} " in " ".join(words for name, words in recipe if name == "RUN")
    order = [name for name, _ in recipe]
    assert "RUN" not in order[order.index("USER") :]


def test_the_command_is_one(recipe: list[tuple[str, str]]) -> None:
    assert json.loads(last(recipe, "ENTRYPOINT")) == ["kinrank"]
    given = parses(json.loads(last(recipe, "CMD")))
    assert str(given["source"]).startswith(last(recipe, "VOLUME"))
    assert given["host"] == "0.0.0.0"
    assert str(given["port"]) == last(recipe, "EXPOSE")


def test_the_health_of_the_image_is_that_of_a_service(recipe: list[tuple[str, str]]) -> None:
    """The exact command is run, against a server that is ready and one that is not."""
    from http.server import BaseHTTPRequestHandler, HTTPServer
    from threading import Thread

    line = json.loads(last(recipe, "HEALTHCHECK").split(" CMD ", 1)[1])
    assert line[:2] == ["python", "-c"]
    for status in (200, 503):

        class Handler(BaseHTTPRequestHandler):
            answer = status

            def do_GET(self) -> None:
                self.send_response(self.answer if self.path == "/ready" else 404)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        with HTTPServer(("127.0.0.1", 0), Handler) as server:
            Thread(target=server.serve_forever, daemon=True).start()
            port = last(recipe, "EXPOSE")
            assert f":{port}/" in line[2]
            program = line[2].replace(f":{port}/", f":{server.server_port}/")
            done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=180)
            server.shutdown()
        assert (done.returncode == 0) == (status == 200)


def test_compose_uses_only_known_keys(compose: dict[str, Any]) -> None:
    assert set(compose) == {"name", "services", "networks", "volumes"}
    for service in compose["services"].values():
        assert set(service) <= set(OF_A_SERVICE)
        assert set(service["networks"]) <= set(compose["networks"])
        assert {volume.split(":")[0] for volume in service["volumes"]} <= set(compose["volumes"])
        for other, how in service.get("depends_on", {}).items():
            assert how["condition"] == "service_healthy"
            assert "healthcheck" in compose["services"][other]


def test_secrets_have_no_default(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        for name, value in service["environment"].items():
            if any(word in name for word in ("PASSWORD", "TOKEN")):
                assert re.fullmatch(r"\$\{[A-Z_]+:\?.+\}", value), f"{name} must be asked for"
    text = (ROOT / "compose.yaml").read_text("utf-8")
    assert not re.search(r"://[^/\s@]*:[^/\s@]*@", text), "a password stands in a URL"
    assert ".env" not in (ROOT / ".dockerignore").read_text("utf-8").replace("!.env", "")


def test_little_is_allowed(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        assert service["read_only"] is True
        assert "/tmp" in service["tmpfs"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert "privileged" not in service
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))
    assert compose["services"]["service"]["cap_drop"] == ["ALL"]
    assert "ports" not in compose["services"]["database"]
    inner = list(compose["services"]["database"]["networks"])
    assert all(compose["networks"][name]["internal"] for name in inner)


def test_the_service_searches_the_database(compose: dict[str, Any]) -> None:
    service, database = compose["services"]["service"], compose["services"]["database"]
    given = parses(service["command"])
    address = StoreUrl.parse(given["store"])
    assert address.scheme in ENGINES
    assert (address.host, address.user, address.path) == (
        "database",
        database["environment"]["POSTGRES_USER"],
        database["environment"]["POSTGRES_DB"],
    )
    assert set(address.options) == {"table", "vector", "key"}
    assert str(given["source"]).startswith("/data/")
    assert service["environment"]["PGPASSWORD"] == database["environment"]["POSTGRES_PASSWORD"]
    assert service["ports"] == [f"127.0.0.1:{given['port']}:{given['port']}"]


def test_docker_itself_agrees() -> None:
    """Runs if the compose plugin is installed, which needs no engine for this."""
    if (
        shutil.which("docker") is None
        or subprocess.run(["docker", "compose", "version"], capture_output=True).returncode
    ):
        pytest.skip("docker compose is not installed")
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "POSTGRES_PASSWORD": "x", "KINRANK_TOKENS": "read:xxxxxxxx"}
    line = ["docker", "compose", "--file", str(ROOT / "compose.yaml"), "config", "--quiet"]
    done = subprocess.run(line, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
