"""Run builds in containers of the project's image, if the Docker engine has it."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import docker
from docker.errors import APIError, DockerException, NotFound

from tritonstack.triton.docker_engine import DOCKER_ERRORS, NoEngineError, docker_engine, holds_image
from tritonstack_local.codebuild.machines.base import MachineOrder, NoMachineError, OnLine
from tritonstack_local.codebuild.records import MachineGoneError
from tritonstack_local.container_group import remove_labelled

LABEL = "tritonstack.build"
"""Label of build containers; its value is the folder of the cloud's builds."""
_SHOWN_AS = PurePosixPath("/codebuild")
_BYTES_AT_ONCE = 1 << 16
_KILLED = 128 + signal.SIGKILL
_DOUBTED_S = 2.0

log = logging.getLogger(__name__)


class ContainerMachine:
    """A container kept running by a waiting command; each build command is executed in it."""

    def __init__(self, engine: docker.DockerClient, order: MachineOrder) -> None:
        self._folder = order.folder
        # The image has other users than the cloud's. Outside of the container, the cloud's folder is closed.
        for path in (order.folder, *order.folder.rglob("*")):
            if not path.is_symlink():
                self.share(path)
        self._api = engine.api
        self._ending = threading.Lock()
        self.notices: Sequence[str] = [
            f"The image {order.image} runs in a container of this machine's engine."
        ]
        try:
            self._container = engine.containers.run(
                order.image,
                entrypoint=["sleep"],
                command=["infinity"],
                detach=True,
                init=True,
                user="root",
                privileged=order.privileged,
                environment=dict(order.environment),
                network_mode="host",  # the cloud listens on the machine's loopback only
                volumes={str(order.folder): {"bind": str(_SHOWN_AS), "mode": "rw"}},
                labels={LABEL: str(order.folder.parent)},
            )
        except DockerException as error:
            raise NoMachineError(f"the container did not start: {error}") from error

    def inside(self, path: Path) -> str:
        """Return a path below /codebuild, where the build's folder is mounted."""
        return str(_SHOWN_AS / path.relative_to(self._folder))

    def share(self, path: Path, *, writable: bool = False) -> None:
        """Give all users what the cloud's user has, or only reading."""
        mode = path.stat().st_mode
        bits = 0o7 if writable else 0o5
        path.chmod(mode | (mode >> 3 & bits << 3) | (mode >> 6 & bits))

    def run(self, argv: Sequence[str], *, user: str | None, on_line: OnLine) -> int:
        """Run a command as a user of the image."""
        try:
            command = self._api.exec_create(self._container.id, list(argv), user=user or "root")["Id"]
            pending = b""
            for data in self._api.exec_start(command, stream=True):
                *lines, pending = (pending + data).split(b"\n")
                if len(pending) > _BYTES_AT_ONCE:
                    lines, pending = [*lines, pending], b""
                for line in lines:
                    on_line(_decoded(line))
            if pending:
                on_line(_decoded(pending))
            status: int | None = self._api.exec_inspect(command)["ExitCode"]
            up = self._is_up(doubted=status == _KILLED)
        except DockerException as error:
            raise MachineGoneError(f"the build's container has ended: {error}") from error
        if status is None or not up:
            raise MachineGoneError("the build's container has ended")
        return status

    def _is_up(self, *, doubted: bool) -> bool:
        """Return whether the container runs; its commands end slightly before it."""
        deadline = time.monotonic() + (_DOUBTED_S if doubted else 0)
        while True:
            self._container.reload()
            if self._container.status != "running":
                return False
            if time.monotonic() > deadline:
                return True
            time.sleep(0.1)

    def end(self) -> None:
        """Remove the container; make the cloud's user the owner of its files."""
        owner = f"{os.getuid()}:{os.getgid()}"
        with self._ending, contextlib.suppress(NotFound):
            if os.getuid() != 0:
                with contextlib.suppress(APIError):  # a dead container cannot change owners
                    self._container.exec_run(["chown", "-R", owner, str(_SHOWN_AS)])
            self._container.remove(force=True, v=True)


def start_container(order: MachineOrder) -> ContainerMachine | None:
    """Start a build in a container; None if no engine has its image."""
    try:
        engine = docker_engine()
    except NoEngineError:
        return None
    return ContainerMachine(engine, order) if holds_image(engine, order.image) else None


def remove_left_over(folder: Path) -> None:
    """Remove the containers left by an earlier cloud."""
    try:
        remove_labelled(docker_engine(), LABEL, str(folder))
    except NoEngineError:
        return
    except DOCKER_ERRORS as error:
        # Leftover containers are harmless; start anyway.
        log.warning("cannot remove containers of earlier builds: %s", error)


def _decoded(line: bytes) -> str:
    return line.decode(errors="replace").rstrip("\r")
