"""Unix socket between the writer process and the workers of a service. Only the same user can open it.

A message is a record (see `kinrank.manifold.deltas`) with its length before it, a little-endian uint32.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import socket
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kinrank.client import Receipt
from kinrank.errors import InputError
from kinrank.manifold.deltas import RecordReader, pack_record
from kinrank.vector_input import Vectors
from kinrank.web.writes.gallery_writer import Writer
from kinrank.web.writes.write_errors import OutcomeUnknownError, UnavailableError, describe_error

LENGTH_HEADER = struct.Struct("<I")
MAX_MESSAGE_BYTES = 2**29
RECEIVE_BYTES = 2**20  # read at once, so that memory grows with the received bytes, not with the announced ones
ACKNOWLEDGE_SECONDS = 60.0  # timeout of a change
SYNC_SECONDS = 3600.0  # timeout of a sync with a vector database
MAX_SOCKET_PATH_BYTES = 100  # limit of the operating system; some allow 104
ERRORS: dict[str, type[Exception]] = {
    "refused": InputError,
    "unavailable": UnavailableError,
    "in doubt": OutcomeUnknownError,
    "failed": RuntimeError,
}

log = logging.getLogger(__name__)


def send_message(connection: socket.socket, record: bytes) -> None:
    connection.sendall(LENGTH_HEADER.pack(len(record)) + record)


def receive_message(connection: socket.socket) -> bytearray | None:
    """Read the record of the next message; None if the other side closed the connection."""
    header = _receive_bytes(connection, LENGTH_HEADER.size)
    if header is None:
        return None
    (length,) = LENGTH_HEADER.unpack(header)
    if length > MAX_MESSAGE_BYTES:
        raise InputError(f"a message announces {length} bytes; the limit is {MAX_MESSAGE_BYTES}")
    return _receive_bytes(connection, length)


def _receive_bytes(connection: socket.socket, count: int) -> bytearray | None:
    """Read exactly `count` bytes; None if the other side closes the connection before."""
    content = bytearray()
    while len(content) < count:
        piece = connection.recv(min(RECEIVE_BYTES, count - len(content)))
        if not piece:
            return None
        content += piece
    return content


class RemoteWriter:
    """Connections to the writer in another process. Each thread uses a connection of its own during a call."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._idle: list[socket.socket] = []
        self._closed = False

    def request_change(self, what: str, rows: Vectors | None = None, **fields: Any) -> Receipt:
        """Call the method `what` of the writer: put, remove, observe or sync."""
        arrays = [] if rows is None else [rows.astype("<f4", copy=False)]
        shape = {} if rows is None else {"shape": rows.shape}
        try:
            record = pack_record({"what": what, **fields, **shape}, arrays)
        except TypeError:
            raise InputError("must be a list of texts or of whole numbers", parameter="ids") from None
        if len(record) > MAX_MESSAGE_BYTES:
            raise InputError(f"a change must not exceed {MAX_MESSAGE_BYTES} bytes; split it into several changes")
        return Receipt(*self._request(record, SYNC_SECONDS if what == "sync" else ACKNOWLEDGE_SECONDS)["receipt"])

    def request_status(self) -> dict[str, Any]:
        """Return `logged` and `trouble` of the writer."""
        try:
            return self._request(pack_record({"what": "status"}), ACKNOWLEDGE_SECONDS)
        except OutcomeUnknownError:  # reading has no outcome
            raise UnavailableError("the process that makes changes does not answer; try again later") from None

    def close(self) -> None:
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    def _request(self, record: bytes, seconds: float) -> dict[str, Any]:
        """Send a message and return the answer of the writer, or raise the error that it reports."""
        answer = None
        connection = self._connect()
        with contextlib.suppress(OSError, InputError):  # closed, too slow, or not a message
            connection.settimeout(seconds)
            send_message(connection, record)
            answer = receive_message(connection)
        if answer is None:
            connection.close()
            raise OutcomeUnknownError(
                "the writer stopped or did not answer; the change may or may not have been made: check, then try again"
            )
        self._idle.append(connection)
        if self._closed:
            self.close()
        fields: dict[str, Any] = RecordReader(answer).read_fields()
        for name, error in ERRORS.items():
            if name in fields:
                raise error(fields[name])
        return fields

    def _connect(self) -> socket.socket:
        """Return an idle connection that is still open, or a new one."""
        if self._closed:
            raise UnavailableError("the service is shutting down; try again when it is back")
        with contextlib.suppress(IndexError):
            while True:
                connection = self._idle.pop()
                if _is_open(connection):
                    return connection
                connection.close()
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.settimeout(ACKNOWLEDGE_SECONDS)
            connection.connect(self._path)
        except OSError as error:
            connection.close()
            raise UnavailableError("the writer is not running, so nothing can be changed; try again later") from error
        return connection


def _is_open(connection: socket.socket) -> bool:
    """Return True if the idle connection is still open: then there is nothing to read, not even its end."""
    connection.setblocking(False)
    try:
        connection.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


class WriterSocket:
    """Socket at which other processes change the gallery of a writer, with a thread per connection, until closed."""

    def __init__(self, writer: Writer, path: str) -> None:
        if len(os.fsencode(path)) > MAX_SOCKET_PATH_BYTES:
            raise InputError(
                f"the socket path {path} is longer than {MAX_SOCKET_PATH_BYTES} bytes", remedy="choose a shorter one"
            )
        self._writer, self._path, self._closed = writer, path, False
        self._connections = set[socket.socket]()
        Path(path).unlink(missing_ok=True)  # left by a writer that was killed
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            os.fchmod(self._socket.fileno(), 0o600)  # before the socket has a name, so that no other user can connect
            self._socket.bind(path)
            os.chmod(path, 0o600)  # for systems that ignore the call above
            self._socket.listen(128)
        except BaseException:
            self._socket.close()
            raise
        threading.Thread(target=self._accept, name="kinrank-socket", daemon=True).start()

    def close(self) -> None:
        """Close all connections; a client that waits for an answer sees its connection end."""
        self._closed = True
        Path(self._path).unlink(missing_ok=True)
        for connection in [self._socket, *self._connections]:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _accept(self) -> None:
        while not self._closed:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                if not self._closed:  # possibly too many open files, which passes
                    log.exception("no connection to the writer could be opened")
                    time.sleep(0.1)
                continue
            self._connections.add(connection)
            threading.Thread(target=self._serve, args=[connection], name="kinrank-socket", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                while not self._closed and (message := receive_message(connection)) is not None:
                    send_message(connection, pack_record(self._answer(RecordReader(message))))
            except (OSError, ValueError) as error:  # closed, or not a message
                if not self._closed:
                    log.warning("a connection to the writer was closed (%s)", error)
            finally:
                self._connections.discard(connection)

    def _answer(self, message: RecordReader) -> dict[str, Any]:
        """Run one request and return the answer, which has one of the names in ERRORS if the request failed."""
        fields = message.read_fields()
        if not isinstance(fields, dict):
            raise InputError("a message is not a JSON object")
        try:
            run = self._parse(fields, message)
        except (KeyError, TypeError, ValueError) as error:
            return {"refused": f"the message to the writer is not valid ({type(error).__name__}: {error})"}
        try:
            return run()
        except OutcomeUnknownError as error:
            return {"in doubt": str(error)}
        except UnavailableError as error:
            return {"unavailable": str(error)}
        except InputError as error:
            return {"refused": str(error)}
        except OSError as error:
            log.exception("a change failed")
            reason = describe_error(error)
            return {"in doubt": f"the change may or may not have been made ({reason}); check, then try again"}
        except Exception:
            error_id = secrets.token_hex(4)
            log.exception("a change failed (error id %s)", error_id)
            return {"failed": f"the writer failed; its log has the traceback with error id {error_id}"}

    def _parse(self, fields: dict[str, Any], message: RecordReader) -> Callable[[], dict[str, Any]]:
        """Return a function that runs a request and returns the answer."""
        writer = self._writer
        rows = message.read_array("<f4", fields["shape"]) if "shape" in fields else None
        match fields.get("what"):
            case "put" if rows is not None:
                ids, replace = fields["ids"], bool(fields["replace"])
                return lambda: {"receipt": writer.put(rows, ids, replace)}
            case "observe" if rows is not None:
                return lambda: {"receipt": writer.observe(rows)}
            case "remove":
                removed = fields["ids"]
                return lambda: {"receipt": writer.remove(removed)}
            case "sync":
                return lambda: {"receipt": writer.sync()}
            case "status":
                return lambda: {"logged": writer.logged, "trouble": writer.trouble}
        raise InputError("the writer does not know this request")
