"""A host and a port -> sockets that listen there, or the sentence why not."""

from __future__ import annotations

import contextlib
import errno
import socket
import sys
import time

BACKLOG = 2048
PATIENCE = 1.0  # seconds; workers of a service that was killed hold its port for a moment
ABSENT = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


def listening(host: str, port: int, groups: int) -> list[list[socket.socket]]:
    """Groups of sockets, each group with all addresses of the host; port 0 stands for one that is free.

    The kernel spreads connections over the groups. A process that dies leaves its group to its successor, with all
    connections that wait. Where the kernel does not do that (it is not Linux) all groups are the same sockets.
    """
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return _listening(host, port, groups)
        except OSError as error:
            if error.errno == errno.EADDRINUSE and time.monotonic() < deadline:
                time.sleep(0.05)
            elif error.errno == errno.EADDRINUSE:
                raise OSError(f"port {port} of {host} is taken by another program; give another port") from None
            elif error.errno == errno.EACCES:
                raise OSError(f"port {port} may not be used by this account; give one from 1024 to 65535") from None
            elif error.errno in ABSENT:
                raise ValueError(f"host {host!r} is no address of this machine; give one that is") from None
            else:
                raise


def _listening(host: str, port: int, groups: int) -> list[list[socket.socket]]:
    alone = _group(host, port, shared=False)
    if groups == 1 or sys.platform != "linux":
        return [alone] * groups
    # Only now is it known that nobody else listens there: who shares a port shares it with strangers, too.
    chosen = alone[0].getsockname()[1]
    for one in alone:
        one.close()
    with contextlib.ExitStack() as made:
        all_groups = []
        for _ in range(groups):
            all_groups.append(_group(host, chosen, shared=True))
            for one in all_groups[-1]:
                made.enter_context(one)
        made.pop_all()
    return all_groups


def _group(host: str, port: int, shared: bool) -> list[socket.socket]:
    """One socket for every address of the host that this machine has, all at one port."""
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError):
        raise ValueError(f"host {host!r} is not known; give a name or an address of this machine") from None
    group: list[socket.socket] = []
    absent: list[OSError] = []
    with contextlib.ExitStack() as made:
        for family, _, _, _, address in found:
            try:
                one = made.enter_context(socket.socket(family, socket.SOCK_STREAM))
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if shared:
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                if family == socket.AF_INET6:
                    one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                one.bind((address[0], group[0].getsockname()[1] if group else port, *address[2:]))
                one.listen(BACKLOG)
                group.append(one)
            except OSError as error:
                if error.errno not in ABSENT:
                    raise
                absent.append(error)
        if not group:
            raise absent[0]
        made.pop_all()
    return group
