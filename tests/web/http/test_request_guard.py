"""RequestGuard: tokens, origins, hosts and bodies."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

pytest.importorskip("fastapi", reason="the service needs the extra [web]")

from fastapi.testclient import TestClient

from kinrank.web.http.request_guard import is_local
from web.small_service import SMALL, client, listening, settings_in

pytestmark = pytest.mark.slow

READ, WRITE = "readers-only", "may-write-too"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    folder = tmp_path_factory.mktemp("guarded")
    with client(settings_in(folder, read_tokens=(READ,), write_tokens=(WRITE,), limits=SMALL)) as found:
        yield found


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    """Real server without tokens."""
    with listening(settings_in(tmp_path_factory.mktemp("raw"))) as found:
        yield "127.0.0.1", int(found.rpartition(":")[2])


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_without_a_token_only_the_empty_page(api: TestClient) -> None:
    for path in ("/health", "/ready", "/", "/page/main.js"):
        assert api.get(path).status_code == 200, path
    for path in ("/v1/info", "/view/start", "/view/items", "/metrics", "/openapi.json", "/pictures/query/0"):
        refused = api.get(path)
        assert refused.status_code == 401, path
        assert refused.headers["www-authenticate"] == "Bearer"
    assert api.get("/v1/info", headers=bearer("wrong")).status_code == 401
    assert api.get("/v1/info", headers=bearer("")).status_code == 401
    assert api.get("/v1/info", headers={"Authorization": f"Basic {READ}"}).status_code == 401


def test_read_tokens_do_not_allow_writing(api: TestClient) -> None:
    assert api.get("/v1/info", headers=bearer(READ)).status_code == 200
    body = {"ids": ["nobody"]}
    assert api.request("DELETE", "/v1/items", json=body).status_code == 401
    assert api.request("DELETE", "/v1/items", json=body, headers=bearer(READ)).status_code == 403
    assert api.request("DELETE", "/v1/items/", json=body, headers=bearer(READ)).status_code == 403
    assert api.post("/v1/sync", headers=bearer(READ)).status_code == 403
    assert api.request("DELETE", "/v1/items", json=body, headers=bearer(WRITE)).status_code == 422


def test_no_other_writing_of_an_address_gets_around_the_roles(api: TestClient) -> None:
    new = {"vectors": [[1.0] * 8], "ids": ["sneaked-in"]}
    for path in (
        "/v1/items%0A",
        "/v1/items%0a",
        "/v1/items/",
        "//v1/items",
        "/v1/./items",
        "/V1/items",
        "/v1/items%00",
    ):
        assert api.post(path, json=new, headers=bearer(READ)).status_code in (403, 404), path
        assert api.request("DELETE", path, json={"ids": ["item_001"]}, headers=bearer(READ)).status_code in (403, 404)
    assert api.get("/v1/info", headers=bearer(READ)).json()["version"] == 0


FOREIGN = [
    "https://evil.example",
    "http://127.0.0.1.evil.example",
    "http://127.0.0.1:9000",  # another port of this machine
    "http://localhost",  # another name of this machine is another origin
    "http://[::1]",
    "null",  # a file, or a frame in a sandbox
    "",
    "127.0.0.1",
    "ftp://127.0.0.1",
    "http://127.0.0.1 http://evil.example",
    "http://evil.example@127.0.0.1",
    "http://127.0.0.1/",
    "chrome-extension://abcdefgh",
]
CHANGES = [
    ("POST", "/v1/sync", None),
    ("POST", "/v1/items", {"vectors": [[1.0] * 8], "ids": ["new"]}),
    ("DELETE", "/v1/items", {"ids": ["item_001"]}),
    ("PUT", "/v1/items", None),
    ("POST", "/v1/search", {"ids": ["item_001"]}),
    ("POST", "/view/enter", {"token": READ}),
]


@pytest.mark.parametrize("origin", FOREIGN)
def test_a_page_of_another_origin_does_nothing(api: TestClient, origin: str) -> None:
    for method, path, body in CHANGES:
        found = api.request(method, path, json=body, headers={**bearer(WRITE), "Origin": origin})
        assert found.status_code == 403, path
        assert "a page at" in found.json()["detail"]
    assert api.get("/v1/info", headers={**bearer(READ), "Origin": origin}).json()["version"] == 0


def test_a_page_of_another_site_does_nothing(api: TestClient) -> None:
    headers = {**bearer(WRITE), "Sec-Fetch-Site": "cross-site"}
    assert api.post("/v1/sync", headers=headers).status_code == 403
    headers |= {"Sec-Fetch-Site": "same-origin"}
    assert api.post("/v1/sync", headers=headers).status_code == 422
    assert api.post("/v1/sync", headers={**headers, "Origin": "https://evil.example"}).status_code == 403


@pytest.mark.parametrize(
    ("host", "origin", "forwarded"),
    [
        ("127.0.0.1", "http://127.0.0.1", None),
        ("127.0.0.1:8000", "http://127.0.0.1:8000", None),
        ("localhost:8000", "http://LOCALHOST:8000", None),
        ("[::1]:8000", "http://[0:0::1]:8000", None),
        ("localhost:80", "http://localhost", None),
        ("localhost", "https://localhost", None),  # TLS ends at a proxy
        ("localhost:443", "https://localhost", None),
        ("localhost", "https://search.example.org", "search.example.org"),
        ("localhost", "https://search.example.org:8443", "search.example.org:8443"),
        ("localhost", "https://search.example.org", "search.example.org, inner.example.org"),
    ],
)
def test_the_page_itself_is_let_through(api: TestClient, host: str, origin: str, forwarded: str | None) -> None:
    headers = {**bearer(WRITE), "Host": host, "Origin": origin}
    headers |= {} if forwarded is None else {"X-Forwarded-Host": forwarded}
    assert api.post("/v1/sync", headers=headers).status_code == 422  # there is no database to sync with
    assert api.post("/v1/search", json={"ids": ["item_001"]}, headers=headers).status_code == 200


def test_a_service_for_others_compares_origin_and_host(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("open")
    with client(settings_in(folder, host="0.0.0.0", read_tokens=(READ,), write_tokens=(WRITE,))) as api:
        for host, origin, expected in (
            ("search.example.org", "https://search.example.org", 422),
            ("10.0.0.7:8000", "http://10.0.0.7:8000", 422),
            ("10.0.0.7:8000", "http://10.0.0.7", 403),
            ("search.example.org", "https://evil.example", 403),
            ("search.example.org", "null", 403),
        ):
            headers = {**bearer(WRITE), "Host": host, "Origin": origin}
            assert api.post("/v1/sync", headers=headers).status_code == expected, (host, origin)
        for host in ("[::1]evil.example", "a b", "evil.example:99999", "user@evil.example", "::1"):
            assert api.get("/health", headers={"Host": host}).status_code == 421, host


def test_cookies_of_others_do_not_matter(api: TestClient) -> None:
    cookies = 'a={"x": 1}; kinrank_token=' + READ + "; b=é"
    assert api.get("/v1/info", headers={"Cookie": cookies.encode("latin-1")}).status_code == 200


def test_large_bodies_of_requests_without_a_body(api: TestClient) -> None:
    large = b'{"token": "' + b"x" * 5000 + b'"}'
    headers = {"Content-Type": "application/json"}
    assert api.post("/view/enter", content=large, headers=headers).status_code == 413
    assert api.request("GET", "/health", content=large, headers=headers).status_code == 413


def test_many_mistakes_give_one_message(api: TestClient) -> None:
    many = {"ids": [{}] * 3000}
    found = api.post("/v1/search", json=many, headers=bearer(READ))
    assert found.status_code == 422
    assert len(found.json()["detail"]) < 300
    keys = {f"key_{number}": 0 for number in range(200)}
    assert "keys" in api.post("/v1/search", json=keys, headers=bearer(READ)).json()["detail"]


def test_heads_are_answered(api: TestClient) -> None:
    for path in ("/health", "/ready", "/"):
        assert api.head(path).status_code == 200, path


def test_the_page_shows_a_token_once(api: TestClient) -> None:
    assert api.post("/view/enter", json={"token": "wrong"}).status_code == 401
    entered = api.post("/view/enter", json={"token": READ})
    assert entered.status_code == 204
    cookie = entered.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert api.get("/view/start").json()["role"] == "read"
    api.cookies.clear()
    assert api.get("/view/start", headers={"Cookie": "kinrank_token=wrong; \x01=2"}).status_code == 401


OTHER_HOSTS = [
    *("evil.example", "evil.example:8000", "127.0.0.1.evil.example", "[::2]:80", "", "0.0.0.0", "localhost."),
    *("[::1]evil.example", "[::1]:80evil.example", "[::1", "::1", "[127.0.0.1]", "[]", "127.0.0.1:evil.example"),
    *("127.0.0.1:99999", "localhost:8000:1", "user@localhost", "localhost/", "localhost evil.example"),
    "localhost,evil.example",
]


def test_the_name_of_another_site_does_not_lead_here(api: TestClient) -> None:
    for host in OTHER_HOSTS:
        assert api.get("/health", headers={"Host": host}).status_code == 421, host
    for host in ("localhost", "LocalHost:8000", "127.0.0.1:1", "[::1]:8000", "[::1]", "[0:0::1]", "a.localhost"):
        assert api.get("/health", headers={"Host": host}).status_code == 200, host


def test_another_kind_of_body_is_refused(api: TestClient) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        found = api.post("/v1/search", content=b"{}", headers={"Content-Type": kind, **bearer(READ)})
        assert found.status_code == 415, kind


def test_every_answer_is_bound_to_this_site(api: TestClient) -> None:
    for path in ("/health", "/v1/info", "/nothing"):
        found = api.get(path, headers=bearer(READ))
        assert "default-src 'none'" in found.headers["content-security-policy"]
        assert found.headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in found.headers


def test_unknown_addresses_and_methods(api: TestClient) -> None:
    assert api.get("/nothing", headers=bearer(READ)).status_code == 404
    assert api.put("/v1/search", headers=bearer(READ)).status_code == 405
    for path in ("/page/../api.py", "/page/%2e%2e%2fapi.py", "/page/api.py", "/page/%00"):
        assert api.get(path, headers=bearer(READ)).status_code == 404, path


@pytest.mark.parametrize(
    ("line", "host", "status"),
    [
        ("GET http://evil.example/health HTTP/1.1", "127.0.0.1", 421),
        ("GET http://evil.example/health HTTP/1.1", "evil.example", 421),
        ("GET http://evil.example/health HTTP/1.1", None, 421),
        ("GET http://evil.example/health HTTP/1.0", None, 421),
        ("GET http://127.0.0.1/health HTTP/1.1", "evil.example", 421),
        ("GET http://127.0.0.1/health HTTP/1.1", None, 421),
        ("GET http://user@127.0.0.1/health HTTP/1.1", "127.0.0.1", 421),
        ("GET http://127.0.0.1@evil.example/health HTTP/1.1", "127.0.0.1", 421),
        ("GET ftp://127.0.0.1/health HTTP/1.1", "127.0.0.1", 421),
        ("GET http://evil.example HTTP/1.1", "127.0.0.1", 421),
        ("GET http://evil.example?/health HTTP/1.1", "127.0.0.1", 421),
        ("GET HTTP://127.0.0.1/health HTTP/1.1", "127.0.0.1", 200),
        ("GET /health HTTP/1.1", "[::1]evil.example", 421),
        ("GET /health HTTP/1.1", "[::1]", 200),
        ("GET /health HTTP/1.1", None, 400),
        ("GET /health HTTP/1.0", None, 421),
        ("GET //evil.example/health HTTP/1.1", "127.0.0.1", 404),
        ("POST /v1/sync HTTP/1.1\r\nOrigin: http://evil.example", "127.0.0.1", 403),
        ("POST /v1/sync HTTP/1.1\r\nOrigin: http://127.0.0.1\r\nOrigin: null", "127.0.0.1", 403),
        ("POST /v1/sync HTTP/1.1\r\nOrigin: http://127.0.0.1", "127.0.0.1", 422),
        ("POST /v1/sync HTTP/1.1", "127.0.0.1", 422),
    ],
)
def test_raw_requests(address: tuple[str, int], line: str, host: str | None, status: int) -> None:
    head = [line, *([] if host is None else [f"Host: {host}"]), "Connection: close", "Content-Length: 0", "", ""]
    with socket.create_connection(address, timeout=180) as connection:
        connection.sendall("\r\n".join(head).encode())
        answer = b"".join(iter(lambda: connection.recv(4096), b""))
    assert int(answer.split()[1]) == status, answer


def test_local_addresses() -> None:
    assert all(map(is_local, ("localhost", "127.0.0.1", "127.8.8.8", "::1", "LOCALHOST")))
    assert not any(map(is_local, ("0.0.0.0", "::", "10.0.0.1", "example.org", "", "127.0.0.1.example.org")))
