"""HTTP transport: chunks, large bodies, concurrent requests, and connections with and without keep-alive."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.contract.bodies import (
    BINARY,
    answered,
    binary_body,
    json_body,
    numbers,
    output,
    payload,
    tensor,
)
from tests.contract.drivers import DOUBLE, Driver, Server
from tests.contract.wire import chunks, cut, exchange, post, read_answer

pytestmark = pytest.mark.e2e

MIB = 1 << 20
AS_BYTES = {"parameters": {"binary_data_output": True}}


@pytest.fixture
def server(driver: Driver) -> Server:
    return driver.single_model(DOUBLE)


@pytest.mark.own_server
@pytest.mark.parametrize("size", [1, 7, 4096, 10 * MIB], ids=["bytewise", "small", "usual", "one"])
def test_json_in_chunks(server, size):
    body = numbers(*range(2000))
    answer = exchange(server, post(Transfer_Encoding="chunked"), chunks(cut(body, size)))
    assert answer is not None
    assert np.array_equal(np.array(output(answer)["data"]) % 2, np.zeros(2000))


@pytest.mark.own_server
@pytest.mark.parametrize("size", [1, 1000])
def test_bytes_in_chunks_that_cut_through_numbers(server, size):
    array = np.arange(5000, dtype=np.float32)
    body, header_size = binary_body(array.tobytes(), shape=[1, 5000], **AS_BYTES)
    kind = f"{BINARY}{header_size}"
    expected = server.request("POST", "/invocations", body=body, headers={"Content-Type": kind})
    answer = exchange(server, post(kind=kind, Transfer_Encoding="chunked"), chunks(cut(body, size)))
    assert answer is not None
    assert payload(answer) == payload(expected)


@pytest.mark.own_server
@pytest.mark.parametrize(
    "count",
    [
        65_536,
        pytest.param(65_537, marks=pytest.mark.before("26.05")),
        pytest.param(200_000, marks=pytest.mark.before("26.05")),
    ],
)
def test_very_many_chunks(server, count):
    """Releases from 26.05 on read up to 65,536; earlier ones read all, and crash at two million."""
    body = numbers(1).ljust(count)
    answer = exchange(server, post(Transfer_Encoding="chunked"), chunks(cut(body, 1)))
    assert answer is not None
    assert len(output(answer)["data"]) == 1


@pytest.mark.own_server
@pytest.mark.since("26.05")
def test_more_chunks_than_the_limit_are_rejected(server):
    body = numbers(1).ljust(65_537)
    answer = exchange(server, post(Transfer_Encoding="chunked"), chunks(cut(body, 1)))
    assert answer is not None
    assert answer.status == 400
    assert b"exceeds maximum of 65536 non-empty chunks" in answer.body


@pytest.mark.own_server
@pytest.mark.parametrize(
    "message",
    [
        pytest.param((post(Transfer_Encoding="chunked"), b"zz\r\n{}\r\n0\r\n\r\n"), id="invalid chunk size"),
        pytest.param((post(Content_Length="many"),), id="invalid Content-Length"),
        pytest.param((b"no HTTP\r\n\r\n",), id="no HTTP"),
    ],
)
def test_unreadable_request_closes_the_connection(server, message):
    assert exchange(server, *message) is None
    assert server.request("GET", "/ping").status == 200


@pytest.mark.own_server
def test_interrupted_request_does_not_affect_others(server):
    with server.connect() as connection:
        connection.sendall(post(Content_Length="1000") + b"{")
    assert server.request("GET", "/ping").status == 200


@pytest.mark.own_server
def test_http_1_0_is_answered_and_closed(server):
    body = numbers(1)
    with server.connect() as connection:
        connection.settimeout(30)
        connection.sendall(post(version="1.0", Content_Length=str(len(body))) + body)
        answer = read_answer(connection)
        assert answer is not None
        assert len(output(answer)["data"]) == 1
        assert connection.recv(1) == b""


@pytest.mark.own_server
def test_a_connection_carries_consecutive_requests(server):
    with server.connect() as connection:
        connection.settimeout(30)
        for number in range(5):
            body = numbers(number, id=f"request {number}")
            connection.sendall(post(Content_Length=str(len(body))) + body)
            answer = read_answer(connection)
            assert answer is not None
            assert answered(answer)["id"] == f"request {number}"


@pytest.mark.parametrize("megabytes", [1, 6, 24])
def test_large_bodies_in_bytes(served_model, megabytes):
    """25 MB is what AWS documents for a real-time endpoint; botocore's model still says 6 MiB."""
    array = np.arange(megabytes * 250_000, dtype=np.float32)
    body, header_size = binary_body(array.tobytes(), shape=[1, array.size], **AS_BYTES)
    result = np.frombuffer(payload(served_model.ask(body, f"{BINARY}{header_size}")), np.float32)
    assert np.array_equal(result, array * np.float32(served_model.factor))


def test_a_large_body_in_json(served_model):
    answer = served_model.ask(json_body(tensor(shape=[1, 500_000], data=[1.5] * 500_000)))
    assert output(answer)["data"] == [1.5 * served_model.factor] * 500_000


def test_concurrent_requests_get_their_own_answers(served_model):
    def ask(number: int) -> bool:
        reply = answered(served_model.ask(numbers(number, number + 0.5, id=f"request {number}")))
        data = [number * served_model.factor, (number + 0.5) * served_model.factor]
        return reply["id"] == f"request {number}" and reply["outputs"][0]["data"] == data

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(ask, range(320)))
