"""Requests that crash a server or one of its models. Each case has its own server."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract import models
from tests.contract.bodies import numbers, output, said
from tests.contract.drivers import (
    DEFAULT_MODEL,
    MULTI_MODEL,
    PING_MODE,
    TARGET_HEADER,
    Driver,
    MultiModel,
)
from tritonstack.triton import TritonFailedError, TritonRequestError, TritonTimeoutError

pytestmark = [pytest.mark.e2e, pytest.mark.own_server]


@pytest.fixture
def many(driver: Driver) -> Iterator[MultiModel]:
    """A multi-model server with two models, for one test."""
    server = driver.start(lambda _: None, {MULTI_MODEL: "true", PING_MODE: "live"})
    many = MultiModel(server)
    for name in ("one", "two"):
        many.lay(name, models.single)
        assert many.load(name, f"{name}.tar.gz").status == 200
    yield many
    server.stop()


@pytest.mark.before("26.04")
def test_model_process_crash_on_a_single_model_server(driver):
    """It answers 500 from then on, and /ping still returns 200, so SageMaker does not replace it."""
    assert _ping_after_crash(driver) == 200


@pytest.mark.since("26.04")
def test_model_process_crash_fails_the_ping_of_a_single_model_server(driver):
    """It answers 500 from then on, and /ping returns 400, so SageMaker replaces it."""
    assert _ping_after_crash(driver) == 400


def _ping_after_crash(driver: Driver) -> int:
    server = driver.start(models.single, {DEFAULT_MODEL: models.DOUBLE})
    for number in (models.DIES, 1):
        answer = server.request("POST", "/invocations", body=numbers(number))
        assert answer.status == 500
        assert "Stub process 'double_0_0' is not healthy" in said(answer)
    status = server.request("GET", "/ping").status
    server.stop()
    return status


def test_model_process_crash_on_a_multi_model_server(many):
    """The others answer; it answers 400 from then on."""
    for number in (models.DIES, 1):
        answer = many.invoke("one", "one.tar.gz", numbers(number))
        assert answer.status == 400
        assert "is not healthy" in said(answer)
    assert output(many.invoke("two", "two.tar.gz", numbers(1)))["data"] == [2]
    assert many.ping() == 200


def test_unloading_a_model_under_a_running_request(many):
    """Neither the unload nor the request ends in time: drain a model first."""
    ends: list[object] = []

    def work() -> None:
        try:
            ends.append(many.invoke("one", "one.tar.gz", numbers(models.SLEEPS)).status)
        except (TritonRequestError, TritonFailedError) as broken:  # the server may have ended by then
            ends.append(broken)

    working = threading.Thread(target=work)
    working.start()
    time.sleep(models.SLEEP_S / 4)
    try:
        answer = many.server.request(
            "DELETE", "/models/one", headers={TARGET_HEADER: "one.tar.gz"}, timeout_s=models.SLEEP_S * 4
        )
        assert answer.status == 200
    except TritonTimeoutError:
        assert many.server.running()
    many.server.stop()
    working.join()
    assert len(ends) == 1


def test_unloading_without_the_header_that_came_with_the_load(many):
    """The server waits 350 s for a model that it does not have."""
    with pytest.raises(TritonTimeoutError):
        many.server.request("DELETE", "/models/one", timeout_s=1.5)
    assert many.server.running()


@pytest.mark.before("25.10")
@pytest.mark.parametrize("body", [b"no JSON", b'{"model_name": 1}', b'{"model_name": "a", "url": 5}'])
def test_unreadable_load_order_ends_the_server(many, body):
    with pytest.raises((TritonRequestError, TritonFailedError)):
        many.server.request("POST", "/models", body=body, headers={TARGET_HEADER: "t"})
    deadline = time.monotonic() + 10
    while many.server.running():
        assert time.monotonic() < deadline, "the server survived"
        time.sleep(0.05)


def test_a_python_model_with_an_empty_version_folder_hangs_its_load(many):
    """Loads need a time limit; the other models answer meanwhile."""

    def lay(folder: Path) -> None:
        model = models.write_model(folder / "m")
        (model / "1/model.py").rename(model / "1/notes.txt")

    many.lay("empty", lay)
    with pytest.raises(TritonTimeoutError):
        many.load("empty", "empty.tar.gz", timeout_s=1.5)
    assert output(many.invoke("two", "two.tar.gz", numbers(1)))["data"] == [2]
