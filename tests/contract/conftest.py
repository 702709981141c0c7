"""Choose the server to test, and provide its driver to each case."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.drivers import (
    MODES,
    STANDARD,
    ContainerDriver,
    Driver,
    EmbeddedDriver,
    EndpointDriver,
    MultiModel,
    ServedModel,
    Way,
    release_from,
)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("contract", "the server that tests/contract asks; without any, the embedded one")
    group.addoption("--container", metavar="IMAGE", help="an image that the Docker engine holds")
    group.addoption("--endpoint", metavar="NAME", help="a SageMaker endpoint")
    group.addoption("--endpoint-url", metavar="URL", help="the cloud it is in, where that is not AWS")
    group.addoption("--mode", choices=MODES, default="single", help="how --endpoint serves")
    group.addoption("--release", metavar="YY.MM", help="its Triton release, for what differs between them")


def pytest_configure(config: pytest.Config) -> None:
    for marker in (
        "own_server: the case needs a server of its own, or its port, which an endpoint does not have",
        "since(release): the case holds from this Triton release on",
        "before(release): the case holds up to this Triton release, without it",
    ):
        config.addinivalue_line("markers", marker)


@pytest.fixture(scope="session")
def driver(request: pytest.FixtureRequest) -> Iterator[Driver]:
    """The driver of the server that the command line names."""
    driver = driver_for(request.config)
    yield driver
    driver.close()


def driver_for(config: pytest.Config) -> Driver:
    image, endpoint, url, mode, release_text = (
        config.getoption(f"--{name}", None)
        for name in ("container", "endpoint", "endpoint-url", "mode", "release")
    )
    release = release_from(release_text) if release_text else None
    if image:
        return ContainerDriver(image, release)
    if endpoint:
        return EndpointDriver(endpoint, url=url, mode=mode, release=release)
    return EmbeddedDriver()


@pytest.fixture(autouse=True)
def can_be_shown(request: pytest.FixtureRequest, driver: Driver) -> None:
    """Skip what an endpoint cannot show, and what another release does differently."""
    if isinstance(driver, EndpointDriver) and request.node.get_closest_marker("own_server"):
        pytest.skip("an endpoint is asked through InvokeEndpoint alone")
    for marker in [*request.node.iter_markers("since"), *request.node.iter_markers("before")]:
        if driver.release is None:
            pytest.skip("releases differ here, and this server's is unknown: give --release")
        reached = driver.release >= release_from(marker.args[0])
        if reached != (marker.name == "since"):
            pytest.skip(f"the case holds {marker.name} {marker.args[0]}")


@pytest.fixture(params=list(Way), ids=lambda way: way.value.replace(" ", "-"))
def served_model(request: pytest.FixtureRequest, driver: Driver) -> ServedModel:
    """The standard model, or the ensemble that contains it, served in each way."""
    way: Way = request.param
    skip_other_ways(driver, way)
    return driver.served_model(way, STANDARD[way])


def skip_other_ways(driver: Driver, way: Way) -> None:
    if way not in driver.ways:
        ways = ", ".join(way.value for way in driver.ways)
        pytest.skip(f"this server serves as {ways}, not as {way.value}")


@pytest.fixture
def many(driver: Driver) -> MultiModel:
    """The multi-model server that all cases share; its ping mode is live."""
    return driver.multi_model()
