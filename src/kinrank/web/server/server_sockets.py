"""Listening sockets for a host and a port."""

from __future__ import annotations

import contextlib
import errno
import socket
import sys
import time

from kinrank.errors import InputError

BACKLOG = 2048
PORT_WAIT_SECONDS = 1.0  # workers of a killed service hold its port for a moment
ABSENT_ADDRESS_ERRORS = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


def open_sockets(host: str, port: int, groups: int) -> list[list[socket.socket]]:
    """Open groups of sockets, each group for all addresses of the host; port 0 stands for any free port.

    The kernel distributes connections over the groups. A process that dies leaves its group to its successor, with all
    waiting connections. Outside Linux, where the kernel does not do this, all groups are the same sockets.
    """
    deadline = time.monotonic() + PORT_WAIT_SECONDS
    while True:
        try:
            return _open_groups(host, port, groups)
        except OSError as error:
            if error.errno == errno.EADDRINUSE and time.monotonic() < deadline:
                time.sleep(0.05)
            elif error.errno == errno.EADDRINUSE:
                raise OSError(f"port {port} of {host} is used by another program; give another port") from None
            elif error.errno == errno.EACCES:
                raise OSError(f"this account may not use port {port}; give one from 1024 to 65535") from None
            elif error.errno in ABSENT_ADDRESS_ERRORS:
                raise InputError(
                    "is not an address of this machine", parameter="host", given=host, remedy="give one that is"
                ) from None
            else:
                raise


def _open_groups(host: str, port: int, groups: int) -> list[list[socket.socket]]:
    exclusive = _open_group(host, port, shared=False)
    if groups == 1 or sys.platform != "linux":
        return [exclusive] * groups
    # This proves that no other program listens at the port: a shared port would be shared with any program.
    chosen = exclusive[0].getsockname()[1]
    for listener in exclusive:
        listener.close()
    with contextlib.ExitStack() as stack:
        all_groups = []
        for _ in range(groups):
            all_groups.append(_open_group(host, chosen, shared=True))
            for listener in all_groups[-1]:
                stack.enter_context(listener)
        stack.pop_all()
    return all_groups


def _open_group(host: str, port: int, shared: bool) -> list[socket.socket]:
    """Open one socket for each address of the host that this machine has, all at the same port."""
    try:
        addresses = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError):
        raise InputError(
            "is not known", parameter="host", given=host, allowed="a name or an address of this machine"
        ) from None
    group: list[socket.socket] = []
    absent: list[OSError] = []
    with contextlib.ExitStack() as stack:
        for family, _, _, _, address in addresses:
            try:
                listener = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if shared:
                    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                if family == socket.AF_INET6:
                    listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                listener.bind((address[0], group[0].getsockname()[1] if group else port, *address[2:]))
                listener.listen(BACKLOG)
                group.append(listener)
            except OSError as error:
                if error.errno not in ABSENT_ADDRESS_ERRORS:
                    raise
                absent.append(error)
        if not group:
            raise absent[0]
        stack.pop_all()
    return group
