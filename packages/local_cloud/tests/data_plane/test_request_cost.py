"""The cost of a request in the event loop, in Python calls: the same number on every machine."""

from __future__ import annotations

import socket
import sys
import threading
from collections import Counter

import pytest

from tritonstack.runtime.async_connections import AsyncConnectionPool

REQUESTS = 20
ROUNDS = 5
MOST_CALLS = 225
"""Python functions called per request, from its first byte to its response."""
RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n\r\nyes"


@pytest.fixture
def server(endpoint, monkeypatch):
    """Replace the endpoint's fake Triton by a real HTTP server, which is asked from the event loop."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        connection, _ = listener.accept()
        with connection:
            while connection.recv(1 << 16):
                connection.sendall(RESPONSE)

    threading.Thread(target=serve, daemon=True).start()
    pool = AsyncConnectionPool(connect=lambda: socket.create_connection(listener.getsockname()))
    monkeypatch.setattr(endpoint.server, "exchange", pool.request)
    yield
    pool.close()
    listener.close()


@pytest.mark.usefixtures("server")
def test_calls_per_request_in_the_event_loop(endpoint):
    loop = endpoint.cloud._sagemaker.events.loop
    calls = []

    def count(frame, event, _):
        if event == "call":
            calls.append(frame.f_code.co_qualname)

    requests = [
        endpoint.request(b"ask %d" % number, headers={"X-Amzn-SageMaker-Inference-Id": f"id-{number}"})
        for number in range(ROUNDS * REQUESTS + 1)
    ]
    rounds = []
    with endpoint.connect() as connection:

        def ask(request):
            connection.send(request)
            assert connection.response().body == b"yes"

        ask(requests[0])  # opens the connection to the server and fills caches
        for first in range(1, len(requests), REQUESTS):
            loop.call_soon_threadsafe(sys.setprofile, count)
            try:
                for request in requests[first : first + REQUESTS]:
                    ask(request)
            finally:
                loop.call_soon_threadsafe(sys.setprofile, None)
            rounds.append(calls.copy())
            calls.clear()
    least = min(rounds, key=len)  # on a busy machine, the loop wakes up more often per request
    assert len(least) > 20 * REQUESTS, "the event loop was not observed"
    assert len(least) < MOST_CALLS * REQUESTS, Counter(least).most_common(20)
