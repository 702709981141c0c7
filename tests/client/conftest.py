"""Scripted servers for the client's tests."""

import pytest

from tests.client.light.wire import WireServer


@pytest.fixture
def serve():
    """Start a server; each is stopped at the end."""
    started = []

    def start(answer=None, **options):
        server = WireServer(**({"answer": answer} if answer else {}), **options)
        started.append(server)
        return server

    yield start
    for server in started:
        server.stop()
