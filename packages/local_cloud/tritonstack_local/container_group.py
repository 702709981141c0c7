"""The containers of one cloud: their network, labels, and removal.

The lifeline is a separate process that reads from a pipe. When the cloud ends, in any way, it removes
everything with the cloud's label. The next cloud of the same folder removes the rest.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker

from tritonstack.triton.docker_engine import DOCKER_ERRORS

OWNER_LABEL = "tritonstack.cloud"
"""Label: state folder of the cloud."""
RUN_LABEL = "tritonstack.run"
"""Label: id of the cloud's run."""
_HOST = "host"
# Imports only at the end: the waiting process should use little memory.
_LIFELINE = """\
import sys
sys.stdin.buffer.read()
from tritonstack.triton.docker_engine import docker_engine
from tritonstack_local.container_group import RUN_LABEL, remove_labelled
remove_labelled(docker_engine(), RUN_LABEL, sys.argv[1])
"""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Network:
    """The network of containers."""

    name: str

    @property
    def shared(self) -> bool:
        """Whether it is the host network."""
        return self.name == _HOST

    def address_of(self, container: Any) -> str:
        """Address of a running container."""
        if self.shared:
            return "127.0.0.1"
        return str(container.attrs["NetworkSettings"]["Networks"][self.name]["IPAddress"])


class ContainerGroup:
    """The containers and networks of one run of a cloud; removes those of earlier runs."""

    def __init__(self, *, engine: docker.DockerClient, owner: Path, isolate: bool = True) -> None:
        """With `isolate` false, containers use the host network even if Docker can create another."""
        self.engine = engine
        self._owner = str(owner)
        self._run = uuid.uuid4().hex[:12]
        self._isolate = isolate
        self._network: Network | None = None
        self._lock = threading.Lock()
        remove_labelled(engine, OWNER_LABEL, self._owner)
        self._lifeline = subprocess.Popen(
            [sys.executable, "-c", _LIFELINE, self._run],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    @property
    def labels(self) -> Mapping[str, str]:
        """Labels of everything that this cloud creates in the engine."""
        return {OWNER_LABEL: self._owner, RUN_LABEL: self._run}

    def network(self) -> Network:
        """Return the network of this cloud's containers; create it on first use."""
        with self._lock:
            if self._network is None:
                self._network = self._make_network()
            return self._network

    def close(self) -> None:
        """Remove everything, and wait until it is gone."""
        self._lifeline.communicate()

    def _make_network(self) -> Network:
        if not self._isolate:
            return Network(_HOST)
        name = f"tritonstack-{self._run}"
        try:
            self.engine.networks.create(name, driver="bridge", internal=True, labels=self.labels)
        except DOCKER_ERRORS as error:
            log.warning(
                "Docker makes no network of its own here (%s): containers listen on free ports of every "
                "interface of this machine, and their models can reach the network",
                error,
            )
            return Network(_HOST)
        return Network(name)


def remove_labelled(engine: docker.DockerClient, label: str, value: str) -> None:
    """Remove the containers and networks with a label."""
    filters = {"label": f"{label}={value}"}
    for container in engine.containers.list(all=True, filters=filters, ignore_removed=True):
        with _log_failure(container.name):
            container.remove(force=True, v=True)
    for network in engine.networks.list(filters=filters):
        with _log_failure(network.name):
            network.remove()


@contextmanager
def _log_failure(name: str) -> Iterator[None]:
    """Another process may remove the same resource at the same time."""
    try:
        yield
    except DOCKER_ERRORS as error:
        log.warning("cannot remove %s: %s", name, error)
