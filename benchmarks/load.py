"""Send prepared HTTP requests over many connections from one thread: open loop at a rate, or closed loop.

An open loop sends each request at its time, whether or not earlier ones were answered. Latency counts from
that time, so that a slow server cannot hide its delays.
"""

from __future__ import annotations

import re
import select
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_LIMIT_S = 70.0
"""Longest wait for the last responses."""


@dataclass
class Load:
    """The result of one run."""

    seconds: float
    latencies_s: list[float] = field(repr=False)
    failed: int
    """Responses with another status than 200."""

    @property
    def rate(self) -> float:
        """Return the successful responses per second."""
        return len(self.latencies_s) / self.seconds

    def percentile_ms(self, percent: float) -> float:
        """Return a percentile of the latency."""
        return float(np.percentile(self.latencies_s, percent)) * 1000


class _Client:
    """A connection and its running request."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.began = 0.0
        self._received = b""

    def send(self, request: bytes, began: float) -> None:
        self.began = began
        self._received = b""
        self.connection.sendall(request)

    def receive(self) -> int | None:
        """Return the status of the response when it is complete."""
        data = self.connection.recv(1 << 18)
        if not data:
            raise ConnectionError("the server closed a connection")
        self._received = self._received + data if self._received else data
        head = self._received.find(b"\r\n\r\n")
        if head < 0:
            return None
        length = _LENGTH.search(self._received, 0, head)
        if length is None:
            raise ConnectionError(f"a response without Content-Length: {self._received[:80]!r}")
        if len(self._received) < head + 4 + int(length[1]):
            return None
        return int(self._received[9:12])


def send_load(
    connect: Callable[[], socket.socket],
    requests: Sequence[bytes],
    *,
    connections: int,
    seconds: float,
    rate: float | None = None,
) -> Load:
    """Send requests for some time, in turn: `rate` per second, or as fast as they are answered."""
    with _connected(connect, connections) as clients:
        if rate is None:
            return _closed_loop(clients, requests, seconds)
        return _open_loop(clients, requests, seconds, rate)


@contextmanager
def _connected(connect: Callable[[], socket.socket], count: int) -> Iterator[list[_Client]]:
    clients: list[_Client] = []
    try:
        while len(clients) < count:
            clients.append(_Client(connect()))
        yield clients
    finally:
        for client in clients:
            client.connection.close()


def _closed_loop(clients: Sequence[_Client], requests: Sequence[bytes], seconds: float) -> Load:
    load, poll, by_number = Load(0.0, [], 0), select.epoll(), _registered(clients)
    for client in clients:
        poll.register(client.connection, select.EPOLLIN)
    started = now = time.perf_counter()
    sent = 0
    for client in clients:
        client.send(requests[sent % len(requests)], now)
        sent += 1
    while now - started < seconds:
        for number, _ in poll.poll(1.0):
            client = by_number[number]
            status = client.receive()
            if status is not None:
                now = time.perf_counter()
                _note(load, status, now - client.began)
                client.send(requests[sent % len(requests)], now)
                sent += 1
        now = time.perf_counter()
    load.seconds = now - started
    return load


def _open_loop(clients: Sequence[_Client], requests: Sequence[bytes], seconds: float, rate: float) -> Load:
    load, poll, by_number = Load(seconds, [], 0), select.epoll(), _registered(clients)
    for client in clients:
        poll.register(client.connection, select.EPOLLIN)
    idle = deque(clients)
    started = time.perf_counter()
    total, sent = int(rate * seconds), 0
    while sent < total or len(idle) < len(clients):
        now = time.perf_counter()
        if now - started > seconds + _LIMIT_S:
            raise TimeoutError("requests were not answered")
        while sent < total and idle and started + sent / rate <= now:
            idle.popleft().send(requests[sent % len(requests)], started + sent / rate)
            sent += 1
        # select waits to the microsecond, epoll to the millisecond.
        wait_s = started + sent / rate - time.perf_counter() if sent < total and idle else 1.0
        select.select([poll], [], [], max(0.0, wait_s))
        for number, _ in poll.poll(0):
            client = by_number[number]
            status = client.receive()
            if status is not None:
                _note(load, status, time.perf_counter() - client.began)
                idle.append(client)
    return load


def _registered(clients: Sequence[_Client]) -> dict[int, _Client]:
    return {client.connection.fileno(): client for client in clients}


def _note(load: Load, status: int, latency_s: float) -> None:
    if status == 200:
        load.latencies_s.append(latency_s)
    else:
        load.failed += 1
