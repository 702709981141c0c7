"""The light transport with real sockets: failed connections, timeouts, and retries."""

import functools
import socket
import threading
import time

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import (
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    ReadTimeoutError,
)

from tests.client.light.calls import ONCE, THROTTLED, now
from tests.client.light.wire import CLOSE, RESET, reply
from tritonstack.client.light import LightRuntime


class TestFailures:
    def test_no_server(self, call):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{free.getsockname()[1]}"
            with pytest.raises(EndpointConnectionError, match=f"{url}/endpoints/e/invocations"):
                call(LightRuntime(endpoint_url=url, config=ONCE))

    def test_no_such_host(self, call):
        with pytest.raises(EndpointConnectionError):
            call(LightRuntime(endpoint_url="http://nowhere.invalid", config=ONCE))

    def test_no_reply_in_time(self, serve, call):
        event = threading.Event()
        server = serve(lambda request: reply() if event.wait(5) else CLOSE)
        config = Config(read_timeout=0.2, retries={"total_max_attempts": 1})
        with pytest.raises(ReadTimeoutError):
            call(LightRuntime(endpoint_url=server.url, config=config))
        event.set()

    def test_no_connection_in_time(self, call):
        """A listener whose queue is full never completes a handshake."""
        with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
            address = full.getsockname()
            waiting = [socket.socket() for _ in range(4)]
            for connection in waiting:
                connection.setblocking(False)
                connection.connect_ex(address)
            time.sleep(0.05)
            config = Config(connect_timeout=0.3, retries={"total_max_attempts": 1})
            with pytest.raises(ConnectTimeoutError):
                call(LightRuntime(endpoint_url=f"http://127.0.0.1:{address[1]}", config=config))
            for connection in waiting:
                connection.close()

    @pytest.mark.parametrize("mode", ["standard", "legacy"])
    @pytest.mark.parametrize("attempts", [1, 2, 3])
    def test_the_attempts_equal_boto3s(self, serve, call, monkeypatch, mode, attempts):
        monkeypatch.setattr("time.sleep", lambda _: None)
        config = Config(retries={"total_max_attempts": attempts, "mode": mode})
        request_lists = []
        for create in (functools.partial(boto3.client, "sagemaker-runtime"), LightRuntime):
            server = serve(lambda request: THROTTLED)
            runtime = create(endpoint_url=server.url, config=config)
            with pytest.raises(ClientError) as caught:
                (call if create is LightRuntime else now)(runtime)
            response = caught.value.response
            retries = response["ResponseMetadata"]["RetryAttempts"]
            request_lists.append((len(server.requests), response["Error"]["Code"], retries))
        assert request_lists == [(attempts, "ThrottlingException", attempts - 1)] * 2

    @pytest.mark.parametrize("first", [THROTTLED, CLOSE, RESET, reply(status=500), reply(status=503)])
    def test_a_retry_succeeds(self, serve, call, monkeypatch, first):
        monkeypatch.setattr("time.sleep", lambda _: None)
        answers = iter([first, reply(b"second")])
        server = serve(lambda request: next(answers))
        result = call(LightRuntime(endpoint_url=server.url))
        assert result["Body"].read() == b"second"
        assert result["ResponseMetadata"]["RetryAttempts"] == 1
        assert [request.body for request in server.requests] == [b"ask", b"ask"]

    def test_successes_restore_the_right_to_retry(self, serve, monkeypatch):
        """boto3's standard mode stops retrying after many failures and resumes after successes."""
        monkeypatch.setattr("time.sleep", lambda _: None)
        failing = True
        server = serve(lambda request: THROTTLED if failing else reply())
        runtime = LightRuntime(endpoint_url=server.url, config=Config(retries={"mode": "standard"}))

        def attempts():
            before = len(server.requests)
            with pytest.raises(ClientError):
                now(runtime)
            return len(server.requests) - before

        for _ in range(60):
            attempts()
        assert attempts() == 1
        failing = False
        for _ in range(30):
            now(runtime)
        failing = True
        assert attempts() == 3
