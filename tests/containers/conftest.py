"""Images of containers/, built on a stand-in for SageMaker's image if a Docker engine is available."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import docker
import pytest

from tests.containers.stand_in_base.gather import REPOSITORY, StandInBase
from tritonstack.base import files
from tritonstack.base.paths import find_project
from tritonstack.triton.docker_engine import NoEngineError, docker_engine
from tritonstack.triton.installation import find_embedded
from tritonstack.triton.sandbox import EXPOSE
from tritonstack_local.container_group import ContainerGroup

PROJECT = find_project(Path(__file__).parent)
CONTAINERS = PROJECT.root / "containers"
LEAN = "annotated-types numpy pydantic pydantic-core pyyaml typing-extensions typing-inspection"
"""Of the builder's requirements, those that finding a server needs: all of them are gigabytes."""
IN_TORCHES_PLACE = "mpmath"
"""One that PyTorch brings along; it takes PyTorch's place in the lean builder."""


@pytest.fixture(scope="session")
def engine() -> docker.DockerClient:
    try:
        return docker_engine()
    except NoEngineError as lack:
        pytest.skip(lack.message)


@pytest.fixture(scope="session")
def base_image(engine: docker.DockerClient) -> str:
    cache = PROJECT.cache_dir / "stand-in-wheels"
    with files.only_writer(cache):
        base = StandInBase(
            installation=find_embedded(home=PROJECT.server_dir),
            wheels=_downloaded(cache, [*_pins("serving"), *_lean_pins(), *_torch_pins()]),
        )
        return base.build(engine)


@pytest.fixture(scope="session")
def serving_image(engine: docker.DockerClient, base_image: str) -> str:
    context = {file.name: file.read_bytes() for file in (CONTAINERS / "serving").iterdir()}
    return _built(engine, f"{REPOSITORY}-serving:test", base_image, context)


@pytest.fixture(scope="session")
def lean_builder_image(engine: docker.DockerClient, base_image: str) -> str:
    """The builder image from its own Dockerfile, with only the packages needed to find a server."""
    context = {file.name: file.read_bytes() for file in (CONTAINERS / "builder").iterdir()}
    context["requirements.txt"] = "\n".join(_lean_pins()).encode()
    context["torch.txt"] = context["cuda.txt"] = "\n".join(_torch_pins()).encode()
    return _built(engine, f"{REPOSITORY}-builder:test", base_image, context)


@pytest.fixture(params=["a network of its own", "the machine's network"])
def container_group(
    engine: docker.DockerClient,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[ContainerGroup]:
    isolate = request.param == "a network of its own"
    if not isolate:
        monkeypatch.setenv(EXPOSE, "1")
    container_group = ContainerGroup(engine=engine, owner=tmp_path, isolate=isolate)
    if isolate and container_group.network().shared:
        pytest.skip("this machine's Docker engine makes no network of its own")
    yield container_group
    container_group.close()


def _built(engine: docker.DockerClient, tag: str, base: str, context: dict[str, bytes]) -> str:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, content in context.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    packed.seek(0)
    engine.images.build(
        fileobj=packed,
        custom_context=True,
        tag=tag,
        buildargs={"BASE_IMAGE": base},
        rm=True,
        network_mode="none",
    )
    return tag


def _pins(image: str) -> list[str]:
    """Return the packages of an image, each with its hashes."""
    text = (CONTAINERS / image / "requirements.txt").read_text().replace("\\\n", " ")
    return [" ".join(line.split()) for line in text.splitlines() if "==" in line]


def _lean_pins() -> list[str]:
    return _named(_pins("builder"), LEAN.split())


def _torch_pins() -> list[str]:
    return _named(_pins("builder"), [IN_TORCHES_PLACE])


def _named(pins: Iterable[str], names: list[str]) -> list[str]:
    return [pin for pin in pins if pin.partition("==")[0] in names]


def _downloaded(cache: Path, pins: list[str]) -> Path:
    """Return a folder with the wheels of these packages only; downloaded once."""
    folder, requirements = cache / "wheels", cache / "requirements.txt"
    if requirements.exists() and requirements.read_text().split("\n") == pins:
        return folder
    if folder.exists():
        for file in folder.iterdir():
            file.unlink()
    listed = cache / "requirements.new"
    listed.write_text("\n".join(pins))
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    with_hashes, without = cache / "hashed.txt", cache / "plain.txt"
    with_hashes.write_text("\n".join(pin for pin in pins if "--hash" in pin))
    without.write_text("\n".join(pin for pin in pins if "--hash" not in pin))
    for file in (with_hashes, without):
        subprocess.run([*command, f"--dest={folder}", f"--requirement={file}"], check=True)
    listed.replace(requirements)
    return folder
