"""Builds in containers of the project's image."""

import io
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from typing import Any

import pytest

from packages.local_cloud.tests.codebuild.conftest import Account, an_environment, builds_in, spec, why
from tritonstack.triton.docker_engine import NoEngineError, docker_engine
from tritonstack_local.codebuild.app import container_starter, remove_left_over
from tritonstack_local.codebuild.machines.containers import LABEL

pytestmark = pytest.mark.e2e

IMAGE = "tritonstack-tests/shell:1"
PROGRAMS = ("sh", "sleep", "cat", "env", "id", "ls", "touch", "mkdir", "chown")


@pytest.fixture(scope="module")
def engine() -> Iterator[Any]:
    try:
        found = docker_engine()
    except NoEngineError as error:
        pytest.skip(error.message)
    found.api.import_image_from_data(_shell_image(), repository=IMAGE.partition(":")[0], tag="1")
    yield found
    found.images.remove(IMAGE, force=True)


def _shell_image() -> bytes:
    """An image with this machine's shell only, so that no registry is needed."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        # Folders that are not listed would be accessible to root only.
        for folder in (
            ".",
            "bin",
            "lib",
            "lib64",
            "lib/x86_64-linux-gnu",
            "lib/aarch64-linux-gnu",
            "etc",
            "home",
        ):
            archive.addfile(_folder(folder, 0o755))
        archive.addfile(_folder("tmp", 0o1777))
        archive.addfile(_folder("home/builder", 0o777))
        held: set[str] = set()
        for program in PROGRAMS:
            path = shutil.which(program, path="/bin:/usr/bin")
            assert path is not None, program
            archive.add(os.path.realpath(path), f"bin/{program}")
            listed = subprocess.run(["ldd", path], capture_output=True, text=True, check=False).stdout
            for library in {word for word in listed.split() if word.startswith("/")} - held:
                archive.add(os.path.realpath(library), library.lstrip("/"))
                held.add(library)
        users = b"root:x:0:0::/root:/bin/sh\nbuilder:x:1234:1234::/home/builder:/bin/sh\n"
        entry = tarfile.TarInfo("etc/passwd")
        entry.size = len(users)
        archive.addfile(entry, io.BytesIO(users))
    return buffer.getvalue()


def _folder(name: str, mode: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = tarfile.DIRTYPE, mode
    return entry


@pytest.fixture(scope="module")
def account(engine: Any, shared: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    def never(order: Any) -> Any:
        raise AssertionError(f"no process was asked for: {order}")

    folder, starter = tmp_path_factory.mktemp("builds"), container_starter(never)
    with builds_in(shared.get(), folder, start_machine=starter) as account:
        yield account


def containers(engine: Any) -> list[Any]:
    found: list[Any] = engine.containers.list(all=True, filters={"label": LABEL})
    return found


def project(account: Account, *commands: str, **phases: Any) -> dict[str, Any]:
    account.name += "x"  # each test has its own project
    return account.project(spec(*commands, **phases), environment=an_environment(image=IMAGE))


def test_commands_run_in_the_projects_image(account, engine):
    project(
        account, "ls -d /home/*", "cat /etc/passwd; A=1; cd /tmp", "echo $A $PWD; echo $CODEBUILD_SRC_DIR"
    )
    build = account.ended(account.start())
    assert build["buildStatus"] == "SUCCEEDED", account.log(build)
    assert account.said(build)[:2] == ["/home/builder", "root:x:0:0::/root:/bin/sh"]
    assert account.said(build)[-2:] == ["1 /tmp", "/codebuild/output/src/src"]
    assert f"{IMAGE} runs in a container" in "\n".join(account.log(build))
    assert containers(engine) == []


def test_commands_run_as_the_buildspecs_user(account):
    as_builder = {"run-as": "builder", "commands": ["id -u", "cd /home/builder; B=2"]}
    project(account, "id -u; echo $B $PWD", pre_build=as_builder)
    build = account.ended(account.start())
    assert account.said(build) == ["1234", "0", "2 /home/builder"]


def test_exit_codes_and_access_to_the_cloud(account):
    project(account, "echo $AWS_ENDPOINT_URL", "exit 9")
    build = account.ended(account.start())
    assert account.said(build) == [account.url]
    assert why(build, "BUILD")[1].endswith("exit status 9")


def test_stopping_removes_the_container(account, engine):
    project(account, "sleep 1000 & echo up", "sleep 1000")
    build = account.start()
    account.wait_for_line(build, "up")
    assert len(containers(engine)) == 1
    assert account.codebuild.stop_build(id=build["id"])["build"]["buildStatus"] == "STOPPED"
    assert containers(engine) == []


def test_a_dead_container_fails_the_build_with_fault(account, engine):
    project(account, "echo up", "sleep 1000")
    build = account.start()
    account.wait_for_line(build, "up")
    containers(engine)[0].kill()
    build = account.ended(build)
    assert build["buildStatus"] == "FAULT"
    assert why(build, "BUILD")[0] == "INTERNAL_SERVICE_ERROR"


def test_containers_of_an_earlier_cloud_are_removed(engine, tmp_path):
    for folder in (tmp_path, tmp_path / "other"):
        engine.containers.run(
            IMAGE, ["sleep", "1000"], detach=True, network_mode="none", labels={LABEL: str(folder)}
        )
    remove_left_over(tmp_path)
    assert [item.labels[LABEL] for item in containers(engine)] == [str(tmp_path / "other")]
    remove_left_over(tmp_path / "other")
