"""SageMaker's container contract, tested on running images of containers/."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import docker
import pytest

from tests.containers.conftest import PROJECT
from tests.containers.probe import CONFIG, question, told_by, write_probe
from tritonstack.triton import TritonFailedError
from tritonstack_local.container_group import ContainerGroup
from tritonstack_local.sagemaker.servers.containers import ContainerServer, ContainerStarter
from tritonstack_local.sagemaker.servers.server import ServerOrder

pytestmark = pytest.mark.e2e

LABELS = {
    "com.amazonaws.sagemaker.capabilities.accept-bind-to-port": "true",
    "com.amazonaws.sagemaker.capabilities.multi-models": "true",
}
ONE_NETWORK = pytest.mark.parametrize("container_group", ["a network of its own"], indirect=True)
"""For what does not depend on the network."""
QUIET = {"SAGEMAKER_TRITON_LOG_VERBOSE": "false"}


def reject(order: ServerOrder) -> ContainerServer:
    raise AssertionError(f"{order.image} is not held")


def start(
    container_group: ContainerGroup,
    image: str,
    models: Path,
    environment: Mapping[str, str] = MappingProxyType({}),
) -> ContainerServer:
    order = ServerOrder(
        model_root=models,
        environment={**QUIET, **environment},
        state_dir=models.parent / "state",
        image=image,
    )
    server = ContainerStarter(container_group=container_group, otherwise=reject)(order)
    assert isinstance(server, ContainerServer)
    return server


@pytest.fixture
def probe(container_group: ContainerGroup, serving_image: str, tmp_path: Path) -> Iterator[ContainerServer]:
    models = write_probe(tmp_path / "model")
    server = start(
        container_group, serving_image, models, {"OWN": "its own", "SAGEMAKER_TRITON_THREAD_COUNT": "2"}
    )
    server.wait_ready(timeout_s=60)
    yield server
    server.stop(grace_s=0)


def ask(server: ContainerServer, kind: str, subject: str = "") -> object:
    return told_by(server.request("POST", "/invocations", body=question(kind, subject)))


def test_environment_of_a_model_process_until_sigterm(probe, container_group, engine):
    assert ask(probe, "version", "tokenizers") == pin("tokenizers")
    assert ask(probe, "version", "pillow") == pin("pillow")
    assert ask(probe, "variable", "OWN") == "its own"
    assert ask(probe, "variable", "AWS_SECRET_ACCESS_KEY") is None
    assert ask(probe, "user") == 0
    assert ask(probe, "memory", "/dev/shm") == 64 << 20  # noqa: S108 - the container's
    assert ask(probe, "written", "/opt/ml/model/probe/x") == "OSError"
    assert ask(probe, "written", "/tmp/x") is True  # noqa: S108 - the container's
    if not container_group.network().shared:
        assert ask(probe, "interfaces") == ["eth0", "lo"]
        assert ask(probe, "reached", "192.0.2.1:53") in ("OSError", "TimeoutError")

    container = engine.containers.get(probe.name)
    container.kill("SIGTERM")
    assert container.wait(timeout=30)["StatusCode"] == 0
    await_ended(probe)
    assert "goodbye" in probe.log_path.read_text()


def pin(package: str, image: str = "serving") -> str:
    lines = (PROJECT.root / "containers" / image / "requirements.txt").read_text().splitlines()
    return next(line.split()[0].partition("==")[2] for line in lines if line.startswith(f"{package}=="))


def await_ended(server: ContainerServer) -> None:
    deadline = time.monotonic() + 20
    while server.running:
        assert time.monotonic() < deadline
        time.sleep(0.02)


@ONE_NETWORK
def test_a_container_that_is_killed_is_reported_and_removed(probe, engine):
    engine.containers.get(probe.name).kill()
    await_ended(probe)
    with pytest.raises(TritonFailedError, match="exit status 137"):
        probe.request("GET", "/ping")
    probe.stop(grace_s=30)
    assert not probe.running
    with pytest.raises(docker.errors.NotFound):
        engine.containers.get(probe.name)
    probe.stop()


def test_many_models(container_group, serving_image, tmp_path):
    models = tmp_path / "models"
    models.mkdir()
    server = start(container_group, serving_image, models, {"SAGEMAKER_MULTI_MODEL": "true"})
    try:
        server.wait_ready(timeout_s=60)
        write_probe(models / "ab12" / "model")  # unpacked after the start, as SageMaker does it
        target = {"X-Amzn-SageMaker-Target-Model": "team/probe.tar.gz", "Content-Type": "application/json"}
        order = json.dumps({"model_name": "ab12", "url": f"{server.model_root}/ab12/model"}).encode()
        assert server.request("POST", "/models", body=order, headers=target).status == 200
        assert server.request("POST", "/models", body=order, headers=target).status == 409
        assert len(json.loads(server.request("GET", "/models").body)["models"]) == 1
        answer = server.request("POST", "/models/ab12/invoke", body=question("user"), headers=target)
        assert told_by(answer) == 0
        answer = server.request(
            "POST", "/models/ab12/invoke", body=question("written", "/opt/ml/models/x"), headers=target
        )
        assert told_by(answer) == "OSError"
        assert server.request("DELETE", "/models/ab12", headers=target).status == 200
        assert server.request("GET", "/models/ab12", headers=target).status == 404
    finally:
        server.stop(grace_s=0)


@ONE_NETWORK
def test_a_layout_that_serve_rejects_is_rejected_with_a_message(container_group, serving_image, tmp_path):
    models = write_probe(tmp_path / "model", {"config.pbtxt": CONFIG})
    server = start(container_group, serving_image, models)
    try:
        with pytest.raises(TritonFailedError, match=r"status 1(?s:.*)Incorrect directory"):
            server.wait_ready(timeout_s=60)
    finally:
        server.stop(grace_s=0)


def test_leftover_containers_are_removed_by_the_next_cloud_of_the_folder(engine, serving_image, tmp_path):
    labels = {"tritonstack.cloud": str(tmp_path)}
    leftover = engine.containers.create(serving_image, ["sleep", "600"], labels=labels)
    others = engine.containers.create(serving_image, ["serve"], labels={"tritonstack.cloud": "/elsewhere"})
    try:
        ContainerGroup(engine=engine, owner=tmp_path).close()
        with pytest.raises(docker.errors.NotFound):
            leftover.reload()
        others.reload()
    finally:
        others.remove()


@pytest.mark.parametrize("image", ["serving_image", "lean_builder_image"])
def test_image_records_its_base(engine, base_image, image, request):
    base = engine.images.get(base_image)
    ours = engine.images.get(request.getfixturevalue(image))
    assert LABELS.items() <= ours.labels.items()
    assert ours.labels == base.labels
    assert ours.attrs["Config"]["Entrypoint"] == base.attrs["Config"]["Entrypoint"]
    assert ours.attrs["Config"]["User"] == "", "SageMaker expects containers to run as root"
    added = len(ours.attrs["RootFS"]["Layers"]) - len(base.attrs["RootFS"]["Layers"])
    assert added <= 5
    checks = "test ! -e ~/.cache && sha256sum /usr/bin/serve"
    assert run(engine, ours, checks) == run(engine, base, checks)


def run(engine: docker.DockerClient, image: object, script: str, **options: object) -> str:
    """Return the output of a command in a container, below the entry point's banner."""
    output = engine.containers.run(
        image, ["sh", "-c", script], remove=True, network_mode="none", stderr=True, **options
    )
    return str(output.decode().partition("==\n")[2])


def test_builder_runs_as_an_unprivileged_user(engine, lean_builder_image):
    script = (
        "import pydantic, yaml, numpy; from pathlib import Path; "
        "from tritonstack.triton import find_installation as find; "
        "print(numpy.__version__, find(home=Path('/nowhere')).kind)"
    )
    output = run(
        engine,
        lean_builder_image,
        f'cd /source && /opt/builder/bin/python -B -c "{script}" && touch $TRITONSTACK_HOME.x && '
        "! touch /opt/builder/x && ! touch /x",
        user="builder",
        volumes={str(PROJECT.root): {"bind": "/source", "mode": "ro"}},
    )
    assert f"{pin('numpy', 'builder')} container\n" in output
    assert output.count("Permission denied") == 2


def test_builder_keeps_the_python_of_the_server(engine, base_image, lean_builder_image):
    listing = "python3 -m pip list --format=freeze"
    assert run(engine, base_image, listing) == run(engine, lean_builder_image, listing)
