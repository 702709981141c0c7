"""The light transport with real sockets: connections are kept, replaced, and closed; failures and retries."""

import functools
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import boto3
import numpy as np
import pytest
from botocore.config import Config
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    ReadTimeoutError,
    ResponseStreamingError,
)

from tests.client.light.calls import ONCE, THROTTLED, now, repeatedly
from tests.client.light.wire import CLOSE, CUT, RESET, reply
from tests.tls import server_context, write_certificate
from tritonstack.client import EndpointClient
from tritonstack.client.light import LightRuntime


def test_one_connection_carries_many_calls(serve, call):
    server = serve()
    repeatedly(LightRuntime(endpoint_url=server.url), call, 20)
    assert {request.connection for request in server.requests} == {0}


@pytest.mark.parametrize("light", [True, False], ids=["light", "boto3"])
def test_clients_that_share_a_runtime_share_its_connections(serve, light):
    outputs = {"outputs": [{"name": "y", "datatype": "FP32", "shape": [1], "data": [1.0]}]}
    server = serve(lambda request: reply(json.dumps(outputs).encode()))
    make = LightRuntime if light else functools.partial(boto3.client, "sagemaker-runtime")
    client = EndpointClient(endpoint_name="e", runtime=make(endpoint_url=server.url), target_model="a/1")
    for sharing in (client, client, client.with_model("b/1"), client.with_model("c/1")):
        assert sharing.infer({"x": np.ones(1, np.float32)})["y"].tolist() == [1.0]
    assert [request.connection for request in server.requests] == [0] * 4
    targets = [request.headers["x-amzn-sagemaker-target-model"] for request in server.requests]
    assert targets == ["a/1", "a/1", "b/1", "c/1"]


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("ending", ["closed while idle", "closed by a reply"])
def test_an_ended_connection_is_replaced(serve, call, tmp_path, tls, ending):
    bundle = write_certificate(tmp_path / "tls.pem")
    by_reply = ending == "closed by a reply"
    server = serve(
        lambda request: reply(Connection="close" if by_reply else "keep-alive"),
        close_after_reply=by_reply,
        tls=server_context(bundle) if tls else None,
    )

    def end():
        if not by_reply:
            server.close_connections()
        time.sleep(0.02)

    repeatedly(LightRuntime(endpoint_url=server.url, verify=str(bundle), config=ONCE), call, 3, between=end)
    assert [request.connection for request in server.requests] == [0, 1, 2]


@pytest.mark.parametrize(
    ("second", "error", "attempts"),
    [
        (CLOSE, ConnectionClosedError, 1),
        (RESET, ConnectionClosedError, 1),
        (b"SSH-2.0-x\r\n\r\n", ConnectionClosedError, 1),
        (reply(b"abc", Content_Length="9"), ReadTimeoutError, 3),
        (reply(b"abc", Content_Length="9") + CUT, ResponseStreamingError, 3),
    ],
    ids=["closed", "reset", "not-http", "stalled", "truncated"],
)
def test_a_request_that_may_have_arrived_is_sent_once(serve, call, second, error, attempts):
    """Without retries; a body that breaks off is not retried with them either."""
    answers = iter([reply(), second])
    server = serve(lambda request: next(answers))
    config = Config(read_timeout=0.3, retries={"total_max_attempts": attempts})
    runtime = LightRuntime(endpoint_url=server.url, config=config)
    with pytest.raises(error):
        repeatedly(runtime, call, 2)
    assert [request.connection for request in server.requests] == [0, 0]


def test_a_second_reply_to_a_request_answers_no_other(serve, call):
    """Else the answers of all later calls would be those of the calls before."""
    server = serve(lambda request: reply())

    def send_more():
        server.connections[-1].sendall(reply(b"of nobody"))
        time.sleep(0.02)

    repeatedly(LightRuntime(endpoint_url=server.url, config=ONCE), call, 3, between=send_more, rest_s=0.02)
    assert [request.connection for request in server.requests] == [0, 1, 2]


def test_request_not_sent_on_a_closed_connection_is_retried(serve, monkeypatch):
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


def test_number_of_idle_connections_is_limited(serve):
    both = threading.Barrier(4)
    server = serve(lambda request: (both.wait(10) and reply()) or reply())
    runtime = LightRuntime(endpoint_url=server.url, config=Config(max_pool_connections=2))
    with ThreadPoolExecutor(4) as pool:
        assert len(list(pool.map(lambda _: now(runtime), range(4)))) == 4
    assert len(runtime._threads._idle) == 2
    runtime.close()
    assert not runtime._threads._idle


def test_no_server(call):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(EndpointConnectionError, match=f"{url}/endpoints/e/invocations"):
            call(LightRuntime(endpoint_url=url, config=ONCE))


def test_no_connection_in_time(call):
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
def test_the_attempts_equal_boto3s(serve, call, monkeypatch, mode, attempts):
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
def test_a_retry_succeeds(serve, call, monkeypatch, first):
    monkeypatch.setattr("time.sleep", lambda _: None)
    answers = iter([first, reply(b"second")])
    server = serve(lambda request: next(answers))
    result = call(LightRuntime(endpoint_url=server.url))
    assert result["Body"].read() == b"second"
    assert result["ResponseMetadata"]["RetryAttempts"] == 1
    assert [request.body for request in server.requests] == [b"ask", b"ask"]


def test_successes_restore_the_right_to_retry(serve, monkeypatch):
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
