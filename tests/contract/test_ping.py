"""The health check: when it answers 200, and when 400.

"ready" means that every model that was ever requested is loaded; "live" that the server runs. `serve` intends
"live" for multi-model containers, but passes it on only if the container's environment has
SAGEMAKER_TRITON_PING_MODE: without that, one failed load makes SageMaker replace a healthy container.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.contract import models
from tests.contract.bodies import numbers, output
from tests.contract.drivers import MULTI_MODEL, PING_MODE, Driver, MultiModel
from tests.contract.wire import ask_afresh

pytestmark = [pytest.mark.e2e, pytest.mark.own_server]

OVERRIDE = "SAGEMAKER_TRITON_OVERRIDE_PING_MODE"
Start = Callable[..., MultiModel]


@pytest.fixture
def start(driver: Driver) -> Iterator[Start]:
    """Starts multi-model servers that end with the test."""
    started: list[MultiModel] = []

    def start_one(**environment: str) -> MultiModel:
        started.append(MultiModel(driver.start(lambda _: None, {MULTI_MODEL: "true", **environment})))
        return started[-1]

    yield start_one
    for many in started:
        many.server.stop()


def fail_a_load(many: MultiModel) -> None:
    many.lay("good", models.single)
    assert many.load("good", "good.tar.gz").status == 200
    assert many.ping() == 200
    many.lay("failed", lambda folder: models.write_model(folder / "m", code=models.BROKEN_CODE))
    assert many.load("failed", "failed.tar.gz").status == 400


@pytest.mark.parametrize(
    ("environment", "code"),
    [
        ({}, 400),
        ({OVERRIDE: "live"}, 400),
        ({PING_MODE: "live"}, 200),
        ({PING_MODE: "whatever it says"}, 200),
        ({PING_MODE: "live", OVERRIDE: "ready"}, 400),
    ],
    ids=["the trap", "overriding does not help", "the remedy", "with any value", "overridden"],
)
def test_a_failed_load_in_multi_model_mode(start, environment, code):
    many = start(**environment)
    fail_a_load(many)
    assert many.ping() == code
    assert output(many.invoke("good", "good.tar.gz", numbers(1)))["data"] == [2]
    assert many.unload("failed", "failed.tar.gz").status == 404
    assert many.ping() == code
    (many.server.models / "failed/model/m/1/model.py").write_text(models.DOUBLE_CODE)
    assert many.load("failed", "failed.tar.gz").status == 200
    assert many.ping() == 200, "a model that is fixed in the same folder restores the ping"


def slow(folder: Path) -> None:
    models.write_model(folder / "m", code=models.SLOW_CODE)


def codes_during_a_load(many: MultiModel) -> set[int | None]:
    """What health checks on new connections answer while a model loads; None for those that have to wait."""
    many.lay("slow", slow)
    codes: set[int | None] = set()
    with ThreadPoolExecutor(1) as pool:
        load = pool.submit(many.load, "slow", "slow.tar.gz")
        while not load.done():
            answer = ask_afresh(many.server, "GET", "/ping")
            codes.add(answer and answer.status)
        assert load.result().status == 200
    return codes


@pytest.mark.parametrize(
    ("environment", "seen", "unseen"),
    [
        ({}, 400, 999),
        ({PING_MODE: "live"}, 200, 400),
        # With one HTTP thread, no ping is answered during the load; with the usual eight, some may be.
        ({PING_MODE: "live", "SAGEMAKER_TRITON_THREAD_COUNT": "1"}, None, 400),
    ],
    ids=["default", "live", "one-thread"],
)
def test_ping_during_a_load(start, environment, seen, unseen):
    many = start(**environment)
    codes = codes_during_a_load(many)
    assert seen in codes
    assert unseen not in codes
    assert many.ping() == 200
