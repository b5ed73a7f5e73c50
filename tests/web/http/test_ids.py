"""Every id that the service accepts can be fetched, by the client and by any program; others are refused."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the service needs the extra [web]")

import kinrank as kr
from web.small_service import listening, settings_in, vectors

STRANGE = [
    *(".", "..", "...", "./a", "../a", "a/..", "a/../b", "a/./b", "/", "//", "/a", "a/", "a//b"),
    *("%", "%2e", "%2F", "%00", "%zz", "a%b", "a+b", "a b", " a", "a ", " ", "?", "a?vector=true", "#", "a#b", "a&b=c"),
    *("ä", "日本語", "👩‍👩‍👧", "e\u0301", "\ufeff", "\u200b", "\u202e", "\ufffe", "\U0010ffff", "\xa0", "\xad"),
    *(
        "007",
        "-1",
        "1e3",
        "0",
        "null",
        "true",
        '"',
        "'",
        "\\",
        "..\\..",
        "a:b",
        "a;b",
        "a,b",
        "[::1]",
        "<b>",
        "{}",
        "~",
    ),
    *("new", "sync", "v1/items", "x" * 1000, "ä" * 1000, "👩" * 1000),
]
REFUSED = [
    *(
        "\n",
        "a\nb",
        "a\r",
        "\ta",
        "a\0",
        "\x01",
        "\x1b[31m",
        "\x1f",
        "\x7f",
        "\x80",
        "\x85",
        "\x9f",
        "\u2028",
        "a\u2029",
    ),
    "",
]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with listening(settings_in(tmp_path_factory.mktemp("ids"))) as found:
        yield found


def raw(address: str, path: str) -> Any:
    """Send GET with an unmodified path."""
    connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=180)
    connection.request("GET", path)
    answer = connection.getresponse()
    content = json.loads(answer.read())
    connection.close()
    assert answer.status == 200, (path[:100], content)
    return content


def test_every_accepted_id_can_be_fetched_and_removed(address: str) -> None:
    rows = vectors(len(STRANGE), seed=3)
    with kr.Client(address) as client:
        receipt = client.add(rows, STRANGE)
        assert receipt.added == len(STRANGE)
        for name, row in zip(STRANGE, rows, strict=True):
            found = client.get(name, vector=True)
            assert found["id"] == name
            assert np.allclose(found["vector"], row / np.linalg.norm(row), atol=1e-5)
            every = "".join(f"%{byte:02X}" for byte in name.encode())
            for written in (quote(name, safe=""), every):
                assert raw(address, f"/v1/items/{written}?min_version={receipt.version}")["id"] == name
        assert client.search(rows[:1], k=1).ids.tolist() == [[STRANGE[0]]]
        assert client.remove(STRANGE).removed == len(STRANGE)


@pytest.mark.parametrize("name", REFUSED)
def test_ids_that_no_address_can_carry_are_refused(address: str, name: str) -> None:
    with kr.Client(address) as client:
        for put in (client.add, client.upsert):
            with pytest.raises(ValueError, match=r"ids has .* which (contains a control character|stands for no item)"):
                put(vectors(2), ["fine", name])
        with pytest.raises(ValueError, match="item 'fine' is not in this gallery"):
            client.get("fine")
    with pytest.raises(ValueError, match=r"ids has .* at 1"):
        kr.Manifold.build(vectors(2), kr.methods.AQE(k=1), ids=["fine", name])
    manifold = kr.Manifold.build(vectors(2), kr.methods.AQE(k=1), ids=["a", "b"])
    for change in (manifold.add, manifold.upsert):
        with pytest.raises(ValueError, match=r"ids has .* at 1"):
            change(vectors(2), ["fine", name])
    assert manifold.ids.tolist() == ["a", "b"]
