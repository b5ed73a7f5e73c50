"""A request -> the JSON that the service answers: connections that stay open, second tries, errors in sentences."""

from __future__ import annotations

import random
import threading
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from kinrank.client.answers import LATER, UNKNOWN, Answer, judged

if TYPE_CHECKING:  # it brings much that `import kinrank` has no use for
    from http.client import HTTPConnection

KEPT = 8  # idle connections
LONGEST = 10.0  # seconds that an answer 503 can make us wait


class Line:
    """The way to one service; many threads may use it at the same time.

    Args:
        url: where the service listens, such as http://127.0.0.1:8000.
        token: sent with every request.
        timeout: seconds to wait for the service at each step of a request.
        retries: how often a request is sent again that was answered 503.
    """

    def __init__(self, url: str, token: str | None, timeout: float, retries: int) -> None:
        self.address, self._secure, self._host, self._port, self._path = _parts(url)
        self._headers = {"Accept": "application/json"} | _authorization(token)
        self._timeout, self._retries = timeout, retries
        self._idle: list[HTTPConnection] = []
        self._lock = threading.Lock()
        self._closed = False

    def call(self, verb: str, path: str, body: bytes | None = None, again: bool = True) -> dict[str, Any]:
        """The JSON of a good answer; PermissionError, ValueError, Busy, ConnectionError or TimeoutError for the others.

        Args:
            verb, path, body: the request; the body is JSON.
            again: whether it does no harm twice. Others are sent again only where the service said that it had not
                begun with them: by 503 and a time to wait.
        """
        answer = self.answer(verb, path, body, again)
        for _ in range(self._retries):
            if answer.status not in LATER or (answer.after is None and not again):
                break
            pause = min(1.0 if answer.after is None else answer.after, LONGEST)
            time.sleep(pause * random.uniform(1.0, 1.5))  # not all clients at the same moment
            answer = self.answer(verb, path, body, again)
        return judged(answer, self.address, again)

    def answer(self, verb: str, path: str, body: bytes | None = None, again: bool = True) -> Answer:
        """The answer, whatever its status. Where `again`, a connection that broke is replaced once."""
        connection = self._kept() if again else None  # the service may have closed it: no risk for a change
        for last in (not again, True):
            if connection is None:
                connection = self._opened()
            try:
                return self._exchanged(connection, verb, path, body)
            except TimeoutError:
                raise TimeoutError(
                    f"{self.address} did not answer within {self._timeout:g} seconds; ask for less, or give a larger "
                    f"timeout={'' if again else UNKNOWN}"
                ) from None
            except (OSError, _http().HTTPException) as error:
                if last:
                    raise ConnectionError(
                        f"the connection to {self.address} broke before the answer came ({_reason(error)})"
                        f"{_size(body)}{'' if again else UNKNOWN}"
                    ) from error
            connection = None
        raise AssertionError("unreachable")

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _exchanged(self, connection: HTTPConnection, verb: str, path: str, body: bytes | None) -> Answer:
        headers = self._headers | ({} if body is None else {"Content-Type": "application/json"})
        good = False
        try:
            try:
                connection.request(verb, self._path + path, body, headers)
            except (BrokenPipeError, ConnectionResetError):
                if body is None:  # with a body: it may have been refused before it was complete, in words
                    raise
            response = connection.getresponse()
            after = response.headers.get("Retry-After")
            kind = response.headers.get_content_type()
            answer = Answer(response.status, None if after is None else _seconds(after), kind, response.read())
            good = not response.will_close
            return answer
        finally:
            self._put_back(connection, good)

    def _kept(self) -> HTTPConnection | None:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def _put_back(self, connection: HTTPConnection, good: bool) -> None:
        with self._lock:
            good = good and not self._closed and len(self._idle) < KEPT
            if good:
                self._idle.append(connection)
        if not good:
            connection.close()

    def _opened(self) -> HTTPConnection:
        if self._closed:
            raise ValueError("this client is closed; make another one")
        kind = _http().HTTPSConnection if self._secure else _http().HTTPConnection
        connection: HTTPConnection = kind(self._host, self._port, timeout=self._timeout)
        try:
            connection.connect()
        except OSError as error:
            connection.close()
            if self._secure and isinstance(error, _ssl().SSLError):
                raise ConnectionError(
                    f"no secure connection to {self.address} ({_reason(error)}); the environment variable "
                    "SSL_CERT_FILE names a file of certificates that are trusted"
                ) from error
            raise ConnectionError(
                f"no service answers at {self.address} ({_reason(error)}); start it with: kinrank serve FOLDER"
            ) from error
        return connection


def _parts(url: str) -> tuple[str, bool, str, int | None, str]:
    """The address as it may be printed, whether it is https, host, port, and the path before every other."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except (ValueError, AttributeError, TypeError):
        host = port = parts = None
    if parts is None or not host or parts.scheme not in ("http", "https"):
        raise ValueError("url must be the address of a service, such as http://127.0.0.1:8000")
    if parts.username is not None or parts.query or parts.fragment:
        raise ValueError("url must end with the port or a path; give the token as token=, and nothing behind ? or #")
    path = parts.path.rstrip("/")
    return f"{parts.scheme}://{parts.netloc}{path}", parts.scheme == "https", host, port, path


def _authorization(token: str | None) -> dict[str, str]:
    if token is None:
        return {}
    if not isinstance(token, str) or not token or not token.isascii() or not token.isprintable() or " " in token:
        raise ValueError("token must be a text of ASCII letters, digits and signs, without spaces")
    return {"Authorization": f"Bearer {token}"}


def _http() -> Any:
    import http.client

    return http.client


def _ssl() -> Any:
    import ssl

    return ssl


def _seconds(words: str) -> float:
    """What Retry-After says; a second where it is a date, or nothing that can be read."""
    return float(words) if words.isascii() and words.isdigit() else 1.0


def _reason(error: BaseException) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _size(body: bytes | None) -> str:
    large = body is not None and len(body) > 2**20
    return f"; {len(body or b'') / 2**20:.0f} MB were sent, which may be more than the service takes" if large else ""
