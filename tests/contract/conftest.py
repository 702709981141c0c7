"""Choose the server to test, and provide its driver to each case."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.drivers.external import MODES, AddressDriver, EndpointDriver
from tests.contract.drivers.local import ContainerDriver, EmbeddedDriver, release_from
from tests.contract.drivers.servers import STANDARD, Ability, Driver, MultiModel, ServedModel, Way


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("contract", "the server that tests/contract asks; without any, the embedded one")
    group.addoption("--container", metavar="IMAGE", help="an image that the Docker engine holds")
    group.addoption("--server", metavar="URL", help="a container-level server that runs, such as a container")
    group.addoption("--model-root", metavar="DIR", type=Path, help="the folder it sees as /opt/ml/models")
    group.addoption("--endpoint", metavar="NAME", help="a SageMaker endpoint")
    group.addoption("--endpoint-url", metavar="URL", help="the cloud it is in, where that is not AWS")
    group.addoption("--mode", choices=MODES, help="how --server or --endpoint serves; single if unsaid")
    group.addoption("--release", metavar="YY.MM", help="its Triton release, for what differs between them")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(ability): what a driver has to be able to do")
    config.addinivalue_line("markers", "since(release): the case holds from this Triton release on")
    config.addinivalue_line(
        "markers", "before(release): the case holds up to this Triton release, without it"
    )


@pytest.fixture(scope="session")
def driver(request: pytest.FixtureRequest) -> Iterator[Driver]:
    """The driver of the server that the command line names."""
    driver = driver_for(request.config)
    yield driver
    driver.close()


def driver_for(config: pytest.Config) -> Driver:
    image, url, endpoint = (option(config, name) for name in ("--container", "--server", "--endpoint"))
    release_option = option(config, "--release")
    release = release_from(release_option) if release_option else None
    root = config.getoption("--model-root", None)
    mode = option(config, "--mode") or ("multi-model" if root else "single")
    if image:
        return ContainerDriver(image, release)
    if url:
        return AddressDriver(url, model_root=root, mode=mode, release=release)
    if endpoint:
        return EndpointDriver(
            endpoint, endpoint_url=option(config, "--endpoint-url"), mode=mode, release=release
        )
    return EmbeddedDriver()


def option(config: pytest.Config, name: str) -> str | None:
    value = config.getoption(name, None)
    return None if value is None else str(value)


@pytest.fixture(autouse=True)
def can_be_shown(request: pytest.FixtureRequest, driver: Driver) -> None:
    """Skip what the driver cannot do, and what another release does differently."""
    for marker in request.node.iter_markers("needs"):
        ability: Ability = marker.args[0]
        reason = driver.lacks(ability)
        if reason is not None:
            pytest.skip(reason)
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
    if way not in driver.ways:
        pytest.skip(
            f"this server serves as {', '.join(way.value for way in driver.ways)}, not as {way.value}"
        )
    return driver.served_model(way, STANDARD[way])


@pytest.fixture
def many(driver: Driver) -> MultiModel:
    """The multi-model server that all cases share; its ping mode is live."""
    return driver.multi_model()
