"""The light transport with real sockets: connections are kept, replaced, and closed."""

import asyncio
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import boto3
import numpy as np
import pytest
from botocore.config import Config
from botocore.exceptions import (
    ConnectionClosedError,
    ReadTimeoutError,
    ResponseStreamingError,
)

from tests.client.light.calls import CALL, ONCE, now, repeatedly
from tests.client.light.wire import CLOSE, RESET, reply
from tests.tls import server_context, write_certificate
from tritonstack.client import EndpointClient
from tritonstack.client.light import LightRuntime


class TestConnections:
    def test_one_connection_carries_many_calls(self, serve, call):
        server = serve()
        repeatedly(LightRuntime(endpoint_url=server.url), call, 20)
        assert {request.connection for request in server.requests} == {0}

    @pytest.mark.parametrize("light", [True, False], ids=["light", "boto3"])
    def test_clients_that_share_a_runtime_share_its_connections(self, serve, light):
        outputs = {"outputs": [{"name": "y", "datatype": "FP32", "shape": [1], "data": [1.0]}]}
        server = serve(lambda request: reply(json.dumps(outputs).encode()))
        make = LightRuntime if light else partial(boto3.client, "sagemaker-runtime")
        client = EndpointClient(endpoint_name="e", runtime=make(endpoint_url=server.url), target_model="a/1")
        for sharing in (client, client, client.with_model("b/1"), client.with_model("c/1")):
            assert sharing.infer({"x": np.ones(1, np.float32)})["y"].tolist() == [1.0]
        assert [request.connection for request in server.requests] == [0] * 4
        targets = [request.headers["x-amzn-sagemaker-target-model"] for request in server.requests]
        assert targets == ["a/1", "a/1", "b/1", "c/1"]

    def test_a_connection_that_the_server_closed_is_replaced(self, serve, call):
        server = serve()

        def close():
            server.close_connections()
            time.sleep(0.02)

        repeatedly(LightRuntime(endpoint_url=server.url, config=ONCE), call, 3, between=close)
        assert [request.connection for request in server.requests] == [0, 1, 2]

    @pytest.mark.parametrize("tls", [False, True])
    def test_connection_closed_by_the_peer_is_replaced(self, serve, tmp_path, tls):
        bundle = write_certificate(tmp_path / "tls.pem")
        server = serve(tls=server_context(bundle) if tls else None)
        runtime = LightRuntime(endpoint_url=server.url, verify=str(bundle), config=ONCE)

        async def calls():
            for _ in range(3):
                assert (await runtime.ainvoke_endpoint(**CALL))["Body"].read() == b"{}"
                server.close_connections()
                await asyncio.sleep(0.05)
            await runtime.aclose()

        asyncio.run(calls())
        assert [request.connection for request in server.requests] == [0, 1, 2]

    def test_a_reply_may_close_its_connection(self, serve, call):
        server = serve(lambda request: reply(Connection="close"), close_after_reply=True)
        repeatedly(LightRuntime(endpoint_url=server.url, config=ONCE), call, 3)
        assert [request.connection for request in server.requests] == [0, 1, 2]

    def test_request_not_sent_on_a_closed_connection_is_retried(self, serve, monkeypatch):
        """The server closes between the check of the connection and the request."""
        server = serve()
        runtime = LightRuntime(endpoint_url=server.url, config=ONCE)
        now(runtime)
        server.close_connections()
        time.sleep(0.02)
        monkeypatch.setattr("tritonstack.client.light.connections.wait_for_read", lambda *_: False)
        idle = runtime._threads._idle[0]
        idle.shutdown(socket.SHUT_WR)  # the kernel rejects the request as after a reset
        assert now(runtime)["Body"].read() == b"{}"
        assert [request.connection for request in server.requests] == [0, 1]

    @pytest.mark.parametrize("ending", [CLOSE, RESET])
    def test_a_request_that_arrived_is_not_sent_again_without_retries(self, serve, call, ending):
        answers = iter([reply(), ending])
        server = serve(lambda request: next(answers))
        runtime = LightRuntime(endpoint_url=server.url, config=ONCE)
        if call is now:
            now(runtime)
            with pytest.raises(ConnectionClosedError):
                now(runtime)
        else:

            async def two():
                await runtime.ainvoke_endpoint(**CALL)
                with pytest.raises(ConnectionClosedError):
                    await runtime.ainvoke_endpoint(**CALL)

            asyncio.run(two())
        assert [request.connection for request in server.requests] == [0, 0]

    @pytest.mark.parametrize("wire", [b"SSH-2.0-x\r\n\r\n", b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n"])
    def test_a_reply_that_is_not_http(self, serve, call, wire):
        with pytest.raises(ConnectionClosedError):
            call(LightRuntime(endpoint_url=serve(lambda request: wire).url, config=ONCE))

    def test_truncated_body_is_not_retried(self, serve, call):
        server = serve(lambda request: reply(b"abc", Content_Length="9"), close_after_reply=True)
        with pytest.raises(ResponseStreamingError):
            call(LightRuntime(endpoint_url=server.url))
        assert len(server.requests) == 1

    def test_stalled_body_is_not_retried(self, serve, call):
        server = serve(lambda request: reply(b"abc", Content_Length="9"))
        with pytest.raises(ReadTimeoutError):
            call(LightRuntime(endpoint_url=server.url, config=Config(read_timeout=0.2)))
        assert len(server.requests) == 1

    def test_number_of_idle_connections_is_limited(self, serve):
        both = threading.Barrier(4)
        server = serve(lambda request: (both.wait(10) and reply()) or reply())
        runtime = LightRuntime(endpoint_url=server.url, config=Config(max_pool_connections=2))
        with ThreadPoolExecutor(4) as pool:
            assert len(list(pool.map(lambda _: now(runtime), range(4)))) == 4
        assert len(runtime._threads._idle) == 2
        runtime.close()
        assert not runtime._threads._idle
