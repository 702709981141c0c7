"""The load generator: every request is sent at its time, and waiting takes no CPU time."""

import contextlib
import socket
import sys
import threading
import time

import pytest

from benchmarks.load import send_load

REQUEST = b"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nask"


@pytest.fixture
def address():
    """Serve an HTTP server that fails every tenth request."""
    listener = socket.create_server(("127.0.0.1", 0))
    served = []

    def serve(connection: socket.socket) -> None:
        with connection, contextlib.suppress(ConnectionError):
            while connection.recv(1 << 16):
                served.append(1)
                status = b"500 Error" if len(served) % 10 == 0 else b"200 OK"
                connection.sendall(b"HTTP/1.1 " + status + b"\r\nContent-Length: 2\r\n\r\nok")

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    yield listener.getsockname()
    listener.close()


def test_open_loop_sends_at_its_rate_and_sleeps_between_requests(address):
    polls = []

    def count(_frame, event, function) -> None:
        if event == "c_call" and function.__name__ == "poll":
            polls.append(1)

    began = time.perf_counter()
    sys.setprofile(count)
    try:
        load = send_load(
            lambda: socket.create_connection(address), [REQUEST], connections=4, seconds=0.5, rate=200
        )
    finally:
        sys.setprofile(None)
    assert time.perf_counter() - began >= 99 / 200
    assert (len(load.latencies_s), load.failed) == (90, 10)
    assert len(polls) < 10 * 100, "the generator polls instead of sleeping"


def test_closed_loop_counts_failures(address):
    load = send_load(lambda: socket.create_connection(address), [REQUEST], connections=4, seconds=0.2)
    assert load.failed > 0
    assert load.rate == pytest.approx(len(load.latencies_s) / load.seconds)
