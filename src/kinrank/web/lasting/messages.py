"""A message over a socket: how long its two parts are, a piece of JSON, and raw bytes."""

from __future__ import annotations

import json
import socket
import struct
from typing import Any, NamedTuple

from kinrank.web.lasting.receipts import Refused

SIZES = struct.Struct("<II")
MOST = 2**28  # bytes of either part
PIECE = 2**20  # bytes that are asked for at once: memory grows with what arrives, not with what is announced


class Message(NamedTuple):
    """What is said, and what belongs to it."""

    said: dict[str, Any]
    body: bytes | bytearray = b""


def packed(message: Message) -> bytes:
    """A message as it is sent; Refused if it is too long."""
    said = json.dumps(message.said, separators=(",", ":")).encode()
    if max(len(said), len(message.body)) > MOST:
        raise Refused(f"a change must not take more than {MOST} bytes; make it in several parts")
    return b"".join([SIZES.pack(len(said), len(message.body)), said, message.body])


def receive(connection: socket.socket) -> Message | None:
    """The next message; None where the other side has closed, a ValueError for what is no message."""
    sizes = _bytes(connection, SIZES.size)
    if sizes is None:
        return None
    first, second = SIZES.unpack(sizes)
    if max(first, second) > MOST:
        raise ValueError(f"a message announces {first} and {second} bytes; {MOST} are allowed")
    head, body = _bytes(connection, first), _bytes(connection, second)
    if head is None or body is None:
        return None
    try:
        said = json.loads(bytes(head))
    except RecursionError as error:
        raise ValueError("a message is nested too deeply") from error
    if not isinstance(said, dict):
        raise ValueError("a message is no JSON object")
    return Message(said, body)


def _bytes(connection: socket.socket, count: int) -> bytearray | None:
    """So many bytes; None if the other side closes before they are there."""
    content = bytearray()
    while len(content) < count:
        piece = connection.recv(min(PIECE, count - len(content)))
        if not piece:
            return None
        content += piece
    return content
