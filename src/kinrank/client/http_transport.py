"""HTTP connections to a service: kept open, with retries and one-sentence errors."""

from __future__ import annotations

import random
import threading
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from kinrank.client.json_messages import OUTCOME_UNKNOWN, RETRY_STATUSES, Response, parse_response
from kinrank.errors import InputError

if TYPE_CHECKING:  # imports much that `import kinrank` does not need
    from http.client import HTTPConnection

MAX_IDLE_CONNECTIONS = 8
MAX_RETRY_SECONDS = 10.0  # longest wait after a response 503


class HttpTransport:
    """Connections to one service. Thread-safe.

    Args:
        url: URL of the service, such as http://127.0.0.1:8000.
        token: sent with every request.
        timeout: seconds to wait for the service at each step of a request.
        retries: number of times a request answered with 503 is sent again.
    """

    def __init__(self, url: str, token: str | None, timeout: float, retries: int) -> None:
        self.address, self._secure, self._host, self._port, self._path = _parse_url(url)
        self._headers = {"Accept": "application/json"} | _make_authorization(token)
        self._timeout, self._retries = timeout, retries
        self._idle: list[HTTPConnection] = []
        self._lock = threading.Lock()
        self._closed = False

    def call(self, verb: str, path: str, body: bytes | None = None, again: bool = True) -> dict[str, Any]:
        """Send a request and return the JSON of a successful response.

        Raises a PermissionError, InputError, ServiceBusyError, ConnectionError or TimeoutError for other responses.

        Args:
            verb, path, body: the request; the body is JSON.
            again: True if repeating the request is harmless. Others are sent again only if the service has not started
                them, which it tells by 503 and a time to wait.
        """
        answer = self.answer(verb, path, body, again)
        for _ in range(self._retries):
            if answer.status not in RETRY_STATUSES or (answer.after is None and not again):
                break
            pause = min(1.0 if answer.after is None else answer.after, MAX_RETRY_SECONDS)
            time.sleep(pause * random.uniform(1.0, 1.5))  # so that clients do not retry at the same moment
            answer = self.answer(verb, path, body, again)
        return parse_response(answer, self.address, again)

    def answer(self, verb: str, path: str, body: bytes | None = None, again: bool = True) -> Response:
        """Return the response, whatever its status. If `again`, replace a broken connection once."""
        from http.client import HTTPException

        with self._lock:  # an idle connection may be closed: never use it for a change
            connection = self._idle.pop() if again and self._idle else None
        for last in (not again, True):
            if connection is None:
                connection = self._connect()
            try:
                return self._exchange(connection, verb, path, body)
            except TimeoutError:
                raise TimeoutError(
                    f"{self.address} did not answer within {self._timeout:g} seconds; request less, or give a larger "
                    f"timeout{'' if again else OUTCOME_UNKNOWN}"
                ) from None
            except (OSError, HTTPException) as error:
                if last:
                    raise ConnectionError(
                        f"the connection to {self.address} broke before the response ({_describe_error(error)})"
                        f"{_describe_size(body)}{'' if again else OUTCOME_UNKNOWN}"
                    ) from error
            connection = None
        raise AssertionError("unreachable")

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _exchange(self, connection: HTTPConnection, verb: str, path: str, body: bytes | None) -> Response:
        """Send a request and read the response."""
        headers = self._headers | ({} if body is None else {"Content-Type": "application/json"})
        good = False
        try:
            try:
                connection.request(verb, self._path + path, body, headers)
            except (BrokenPipeError, ConnectionResetError):
                if body is None:  # a body may have been refused, with a message, before it was complete
                    raise
            response = connection.getresponse()
            words, pause = response.headers.get("Retry-After"), None
            kind = response.headers.get_content_type()
            if words is not None:  # one second if it is a date or unreadable
                pause = float(words) if words.isascii() and words.isdigit() else 1.0
            answer = Response(response.status, pause, kind, response.read())
            good = not response.will_close
            return answer
        finally:
            self._put_back(connection, good)

    def _put_back(self, connection: HTTPConnection, good: bool) -> None:
        """Keep a good connection for the next request; close others."""
        with self._lock:
            good = good and not self._closed and len(self._idle) < MAX_IDLE_CONNECTIONS
            if good:
                self._idle.append(connection)
        if not good:
            connection.close()

    def _connect(self) -> HTTPConnection:
        """Open a connection."""
        if self._closed:
            raise InputError("this client is closed", remedy="create another one")
        import http.client
        import ssl

        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        connection = kind(self._host, self._port, timeout=self._timeout)
        try:
            connection.connect()
        except OSError as error:
            connection.close()
            if self._secure and isinstance(error, ssl.SSLError):
                raise ConnectionError(
                    f"no secure connection to {self.address} ({_describe_error(error)}); set the environment variable "
                    "SSL_CERT_FILE to a file of trusted certificates"
                ) from error
            raise ConnectionError(
                f"no service answers at {self.address} ({_describe_error(error)}); start it with: kinrank serve FOLDER"
            ) from error
        return connection


def _parse_url(url: str) -> tuple[str, bool, str, int | None, str]:
    """Return the URL for messages, whether it is https, host, port, and the path that precedes all others."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except (ValueError, AttributeError, TypeError):
        host = port = parts = None
    if parts is None or not host or parts.scheme not in ("http", "https"):
        raise InputError("is not the URL of a service", parameter="url", allowed="a URL such as http://127.0.0.1:8000")
    if parts.username is not None or parts.query or parts.fragment:
        raise InputError(
            "must end with the port or a path",
            parameter="url",
            remedy="give the token as `token`, and nothing after ? or #",
        )
    path = parts.path.rstrip("/")
    return f"{parts.scheme}://{parts.netloc}{path}", parts.scheme == "https", host, port, path


def _make_authorization(token: str | None) -> dict[str, str]:
    """Return the header with the token."""
    if token is None:
        return {}
    if not isinstance(token, str) or not token or not token.isascii() or not token.isprintable() or " " in token:
        raise InputError(parameter="token", allowed="ASCII letters, digits and signs, without spaces")
    return {"Authorization": f"Bearer {token}"}


def _describe_error(error: BaseException) -> str:
    """Return the reason of an error."""
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _describe_size(body: bytes | None) -> str:
    """Mention the size of a large request."""
    large = body is not None and len(body) > 2**20
    return f"; {len(body or b'') / 2**20:.0f} MB were sent, which may be more than the service accepts" if large else ""
