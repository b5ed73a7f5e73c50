"""A Writer <-> other processes of the same service, through a Unix socket that only this user can open."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kinrank.features import Vectors, check
from kinrank.given import listed
from kinrank.manifold.log import said
from kinrank.web.lasting.known import plain
from kinrank.web.lasting.messages import Message, packed, receive
from kinrank.web.lasting.receipts import InDoubt, Receipt, Refused, Unavailable
from kinrank.web.lasting.writer import Writer

SECONDS = 60.0  # for a change to be acknowledged
LONG = 3600.0  # for a vector database to be followed
LONGEST = 100  # bytes of the name of a socket, which the system limits


class Remote:
    """The writer of another process. Each thread that asks has a connection to itself meanwhile."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._free: list[socket.socket] = []  # connections that nobody uses at the moment
        self._closed = False

    def put(self, vectors: ArrayLike, ids: Any, replace: bool) -> Receipt:
        """As `Writer.put`."""
        try:
            rows = check(vectors, "vectors")
            names = None if ids is None else _listed(ids)
        except ValueError as error:
            raise Refused(str(error)) from None
        return self._receipt(_with_rows({"what": "put", "ids": names, "replace": bool(replace)}, rows), SECONDS)

    def observe(self, queries: ArrayLike) -> Receipt:
        """Send queries to `Writer.observe`."""
        try:
            rows = check(queries, "queries")
        except ValueError as error:
            raise Refused(str(error)) from None
        return self._receipt(_with_rows({"what": "observe"}, rows), SECONDS)

    def remove(self, ids: Any) -> Receipt:
        """As `Writer.remove`."""
        try:
            names = _listed(ids)
        except ValueError as error:
            raise Refused(str(error)) from None
        return self._receipt(Message({"what": "remove", "ids": names}), SECONDS)

    def sync(self) -> Receipt:
        """As `Writer.sync`."""
        return self._receipt(Message({"what": "sync"}), LONG)

    def logged(self) -> int:
        """As `Writer.logged`."""
        return int(self._told()["logged"])

    def trouble(self) -> str:
        """As `Writer.trouble`; a writer that does not answer is in trouble, too."""
        try:
            return str(self._told()["trouble"])
        except Unavailable as error:
            return str(error)

    def _told(self) -> dict[str, Any]:
        try:
            return self._answer(Message({"what": "logged"}), SECONDS)
        except InDoubt:  # it was only a question
            raise Unavailable("the process that makes changes does not answer; try again later") from None

    def close(self) -> None:
        self._closed = True
        while self._free:
            self._free.pop().close()

    def _receipt(self, message: Message, seconds: float) -> Receipt:
        return Receipt(*self._answer(message, seconds)["receipt"])

    def _answer(self, message: Message, seconds: float) -> dict[str, Any]:
        """What the writer answers; Refused or Unavailable if it says so, or says nothing."""
        content, answer = packed(message), None
        connection = self._connected()
        with contextlib.suppress(OSError, ValueError):  # gone, too slow, or not understood
            connection.settimeout(seconds)
            connection.sendall(content)
            answer = receive(connection)
        if answer is None:
            connection.close()
            raise InDoubt("the writer ended or did not answer; the change may be made or not: look, then try again")
        self._give_back(connection)
        if "refused" in answer.said:
            raise Refused(answer.said["refused"])
        if "unavailable" in answer.said:
            raise Unavailable(answer.said["unavailable"])
        if "in doubt" in answer.said:
            raise InDoubt(answer.said["in doubt"])
        return answer.said

    def _connected(self) -> socket.socket:
        """A connection that is open: one of before, or a new one."""
        if self._closed:
            raise Unavailable("the service is shutting down; try again when it is back")
        with contextlib.suppress(IndexError):
            while True:
                connection = self._free.pop()
                if _is_open(connection):
                    return connection
                connection.close()
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.settimeout(SECONDS)
            connection.connect(self._path)
        except OSError as error:
            connection.close()
            raise Unavailable("the writer is not there, so nothing can be changed now; try again later") from error
        return connection

    def _give_back(self, connection: socket.socket) -> None:
        self._free.append(connection)
        if self._closed:
            self.close()


def _with_rows(asked: dict[str, Any], rows: Vectors) -> Message:
    """A message with rows of vectors; `_rows_of` reads them."""
    return Message({**asked, "shape": rows.shape}, rows.astype("<f4", copy=False).tobytes())


def _rows_of(message: Message) -> Vectors:
    rows, columns = (int(size) for size in message.said["shape"])
    return np.frombuffer(message.body, "<f4").reshape(rows, columns)


def _is_open(connection: socket.socket) -> bool:
    """Whether nothing can be read from a connection that nobody uses: not even its end."""
    connection.setblocking(False)
    try:
        connection.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _listed(ids: Any) -> list[Any]:
    """Names as JSON can hold them."""
    names = [plain(name) for name in listed(ids, "ids")]
    wrong = next((name for name in names if type(name) not in (str, int)), None)
    if wrong is not None or None in names:
        raise ValueError(f"ids must be a list of texts or of whole numbers; {wrong!r:.80} is neither")
    return names


class Listening:
    """The socket of a writer, served by a thread per connection until it is closed."""

    def __init__(self, writer: Writer, path: str) -> None:
        if len(os.fsencode(path)) > LONGEST:
            raise ValueError(f"the path of a socket must not be longer than {LONGEST} bytes; {path} is: choose another")
        self._writer, self._path, self._closed = writer, path, False
        self._open = set[socket.socket]()
        Path(path).unlink(missing_ok=True)  # of a writer that was killed
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            os.fchmod(self._socket.fileno(), 0o600)  # before it has a name, so that nobody can come in between
            self._socket.bind(path)
            os.chmod(path, 0o600)  # for systems on which that does nothing
            self._socket.listen(128)
        except BaseException:
            self._socket.close()
            raise
        threading.Thread(target=self._accept, name="kinrank-socket", daemon=True).start()

    def close(self) -> None:
        """No more connections; who waits for an answer is told by the end of its own."""
        self._closed = True
        Path(self._path).unlink(missing_ok=True)
        for one in [self._socket, *self._open]:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _accept(self) -> None:
        while not self._closed:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                if not self._closed:  # too many open files, perhaps: some will be closed
                    said.exception("no connection to the writer could be opened")
                    time.sleep(0.1)
                continue
            self._open.add(connection)
            threading.Thread(target=self._serve, args=[connection], name="kinrank-socket", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                while not self._closed and (message := receive(connection)) is not None:
                    connection.sendall(packed(Message(self._done(message))))
            except (OSError, ValueError) as error:
                if not self._closed:
                    said.warning("a connection to the writer was closed (%s)", error)
            finally:
                self._open.discard(connection)

    def _done(self, message: Message) -> dict[str, Any]:
        """The answer to one message."""
        asked, writer = message.said, self._writer
        try:
            match asked.get("what"):
                case "put":
                    return {"receipt": writer.put(_rows_of(message), asked["ids"], bool(asked["replace"]))}
                case "observe":
                    return {"receipt": writer.observe(_rows_of(message))}
                case "remove":
                    return {"receipt": writer.remove(asked["ids"])}
                case "sync":
                    return {"receipt": writer.sync()}
                case "logged":
                    return {"logged": writer.logged, "trouble": writer.trouble}
            return {"refused": "the writer was asked for something that it does not know"}
        except InDoubt as error:
            return {"in doubt": str(error)}
        except Unavailable as error:
            return {"unavailable": str(error)}
        except (ValueError, KeyError, TypeError) as error:
            return {"refused": str(error)}
        except Exception as error:
            said.exception("a change could not be made")
            return {"in doubt": f"the change could not be made, or not be told ({type(error).__name__}); look for it"}


def serve_writer(writer: Writer, socket: str) -> Listening:
    """Let other processes change what `writer` holds, by `Following(folder, store, socket)`; `close()` ends it."""
    return Listening(writer, socket)
