"""The light transport with real sockets: results, and concurrent calls."""

import asyncio
import contextlib
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import boto3
import pytest
from botocore.exceptions import (
    HTTPClientError,
    ParamValidationError,
)

from tests.client.light.calls import CALL, THROTTLED, now
from tests.client.light.wire import CLOSE, reply
from tritonstack.client.light import LightRuntime


def test_a_result_equals_boto3s(serve, call):
    fields = {
        "x-Amzn-Invoked-Production-Variant": "blue",
        "X-Amzn-SageMaker-Custom-Attributes": "trace=1",
        "X-Amzn-SageMaker-New-Session-Id": "one; Expires=2030-01-01",
        "X-Amzn-SageMaker-Closed-Session-Id": "two",
        "x-amzn-RequestId": "id-1",
    }
    server = serve(lambda request: reply(b"answer", content_type="text/x", **fields))
    theirs = boto3.client("sagemaker-runtime", endpoint_url=server.url).invoke_endpoint(**CALL)
    ours = call(LightRuntime(endpoint_url=server.url))
    assert ours.pop("Body").read() == theirs.pop("Body").read() == b"answer"
    assert ours == theirs
    mine, other = server.requests[1], server.requests[0]
    assert (mine.target, mine.body) == (other.target, other.body)


def test_large_bodies_both_ways(serve, call):
    body = bytes(range(256)) * 2**15
    server = serve(lambda request: reply(request.body[::-1]))
    assert call(LightRuntime(endpoint_url=server.url), Body=body)["Body"].read() == body[::-1]


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"EndpointName": 5}, ParamValidationError),
        ({"EndpointName": ["e"]}, ParamValidationError),
        ({"Unknown": "x"}, ParamValidationError),
        ({"Body": "text"}, ParamValidationError),
        ({"TargetModel": "a\r\nX-Injected: 1"}, HTTPClientError),
        ({"ContentType": "a\nb"}, HTTPClientError),
    ],
)
def test_invalid_call_is_rejected_before_it_is_sent(serve, call, fields, error):
    server = serve()
    runtime = LightRuntime(endpoint_url=server.url)
    for _ in range(2):
        with pytest.raises(error):
            call(runtime, **fields)
    assert not server.requests


def test_threads_share_one_runtime(serve, monkeypatch):
    """Slow and fast, failing and successful calls at once: each thread gets its own answer."""

    def answer(request):
        number = int(request.body)
        if number % 7 == 3 and request.headers.get("amz-sdk-request") is None:
            return THROTTLED if number % 2 else CLOSE
        return reply(request.body * 50, Connection="close" if number % 11 == 5 else "keep-alive")

    monkeypatch.setattr("time.sleep", lambda _: None)
    server = serve(answer)
    runtime = LightRuntime(endpoint_url=server.url)

    def one(number):
        return now(runtime, Body=b"%d" % number, InferenceId=f"id-{number}")["Body"].read()

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(one, range(400)))
    assert answers == [b"%d" % number * 50 for number in range(400)]
    assert len(server.connections) < 250


def test_coroutines_share_one_runtime(serve):
    together = threading.Barrier(32)

    def answer(request):
        together.wait(10)
        return reply(request.body)

    server = serve(answer)
    runtime = LightRuntime(endpoint_url=server.url)

    async def many():
        for _ in range(3):
            calls = (runtime.ainvoke_endpoint(**{**CALL, "Body": b"%d" % n}) for n in range(32))
            for number, result in enumerate(await asyncio.gather(*calls)):
                assert result["Body"].read() == b"%d" % number
        await runtime.aclose()

    asyncio.run(many())
    assert len(server.connections) == 32


def test_cancelled_call_leaves_no_connection(serve):
    event = threading.Event()
    server = serve(
        lambda request: reply(request.body) if request.body == b"ask" else reply() if event.wait(5) else CLOSE
    )
    runtime = LightRuntime(endpoint_url=server.url)

    async def calls():
        slow = asyncio.create_task(runtime.ainvoke_endpoint(**{**CALL, "Body": b"slow"}))
        await asyncio.sleep(0.2)
        slow.cancel()
        with pytest.raises(asyncio.CancelledError):
            await slow
        await asyncio.sleep(0.05)
        with contextlib.suppress(ConnectionResetError):
            assert server.connections[0].recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        assert (await runtime.ainvoke_endpoint(**CALL))["Body"].read() == b"ask"
        await runtime.aclose()

    asyncio.run(calls())
    event.set()
    assert [request.connection for request in server.requests] == [0, 1]


def test_each_event_loop_has_its_own_connections(serve):
    server = serve()
    runtime = LightRuntime(endpoint_url=server.url)
    for _ in range(3):
        asyncio.run(runtime.ainvoke_endpoint(**CALL))
    assert len(runtime._loops) == 1
    assert [request.connection for request in server.requests] == [0, 1, 2]
