"""Build models and serve the artifacts: at the container port, and through InvokeEndpoint."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import boto3
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from benchmarks.cloud import NAME, REGION, deploy, started_cloud
from benchmarks.serving.load import Server
from benchmarks.serving.requests import Body
from model_build.build import BuildFolders, build_model
from model_build.store.archive import unpack
from model_build.store.artifacts import read_manifest
from tritonstack.base.files import short_digest
from tritonstack.base.paths import Project
from tritonstack.base.yaml import Document, load_document
from tritonstack.facts.container_variables import ContainerOptions, container_variables
from tritonstack.facts.threads import Threads
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.records.manifests import ARCHIVE_NAME, Manifest
from tritonstack.triton import TritonInstallation, TritonServer, find_installation
from tritonstack.triton.processor_time import tree

READY_WITHIN_S = 180
BACKENDS = {"onnxruntime_onnx": "onnxruntime", "pytorch_libtorch": "pytorch"}
"""Backends of the platforms that name none."""
WHEELS = {"onnxruntime": "onnxruntime", "pytorch": "torch", "fil": "treelite"}
"""What computes in the embedded server's stand-ins, which are written in Python."""


@dataclass(frozen=True)
class Built:
    """A built model, unpacked."""

    name: str
    model: Document[ModelSpec]
    manifest: Manifest
    archive: Path
    repository: Path

    def files(self, pattern: str) -> list[Path]:
        """Return the files of the repository whose names match."""
        return sorted(self.repository.rglob(pattern))

    @property
    def variables(self) -> dict[str, str]:
        """The environment that an endpoint with this machine's cores gives the container."""
        manifest = self.manifest
        cores = len(os.sched_getaffinity(0))
        threads = Threads(cores, manifest.instances, manifest.graphs_decide_threads, manifest.least_threads)
        return container_variables({}, ContainerOptions(manifest.entry_model, threads=threads))

    def describe(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "name": self.name,
            "digest": short_digest(self.manifest.digest),
            "precision": self.manifest.precision,
            "choices": dict(self.manifest.choices),
            "backends": sorted(self.backends()),
            "variables": self.variables,
        }

    def backends(self) -> set[str]:
        """Return the backends of its models."""
        named = r'^\s*(?:backend|platform)\s*:\s*"([^"]+)"'
        texts = (file.read_text() for file in self.files("config.pbtxt"))
        backends = {name for text in texts for name in re.findall(named, text, re.M)}
        return {BACKENDS.get(name, name) for name in backends} - {"ensemble"}


def built(
    project: Project, file: Path, folder: Path, name: str, changes: Mapping[str, Any], store: Path | None
) -> Built:
    """Build a model with changed fields and unpack its archive; `store` replaces the project's."""
    document = load_document(file, ModelSpec)
    fields = {**document.record.model_dump(exclude_unset=True), **changes}
    model = replace(document, record=ModelSpec.model_validate(fields))
    folders = BuildFolders.of(project)
    print(f"{model.record.name}, {name}: building unless the store has it", flush=True)
    result = build_model(model=model, folders=replace(folders, artifacts=store) if store else folders)
    manifest = read_manifest(result.artifact_dir)
    repository = folder / f"repository-{name}"
    archive = result.artifact_dir / ARCHIVE_NAME
    unpack(archive, repository, limit_bytes=manifest.unpacked_bytes)
    return Built(name, model, manifest, archive, repository)


def backend_of(installation: TritonInstallation, built: Built) -> str:
    """Return what runs a model, such as `Python stand-in for onnxruntime (onnxruntime 1.31.1 wheel)`."""
    backends = [_described(installation, backend) for backend in sorted(built.backends())]
    packages = {package for environment in built.manifest.environments for package in environment.packages}
    return ", ".join([*backends, *sorted(packages)])


def _described(installation: TritonInstallation, backend: str) -> str:
    folder = installation.backend_directory / backend
    if not (folder / "model.py").is_file():
        return f"Triton {installation.version}'s own {backend} backend"
    wheel = WHEELS.get(backend, backend)
    pattern = f"{wheel}-*.dist-info"
    folders = [*folder.glob(f"packages/{pattern}"), *installation.root.glob(f"python/**/{pattern}")]
    version = folders[0].name.removesuffix(".dist-info").split("-")[1] if folders else "?"
    return f"Python stand-in for {backend} ({wheel} {version} wheel)"


@contextmanager
def triton_port(project: Project, folder: Path, built: Built) -> Iterator[Server]:
    """Start a Triton as an endpoint's container does, called without AWS in front of it."""
    installation = find_installation(home=project.server_dir)
    with TritonServer.start(
        installation=installation,
        model_root=built.repository,
        environment=built.variables,
        state_dir=folder / f"triton-{built.name}",
    ) as server:
        server.wait_ready(timeout_s=READY_WITHIN_S)
        inside = next(pid for pid in tree(server.pid) if program(pid) == "tritonserver")
        yield Server(
            f"tritonstack, {built.name}, container port",
            backend_of(installation, built),
            server.pid,
            "http://127.0.0.1:8080/invocations",
            namespace_of=inside,
        )


def program(pid: int) -> str:
    """Return the name of a process."""
    return Path(f"/proc/{pid}/comm").read_text().strip()


@contextmanager
def invoke_endpoint(project: Project, folder: Path, built: Built) -> Iterator[Server]:
    """Start a local cloud with one endpoint; requests are signed."""
    installation = find_installation(home=project.server_dir)
    with started_cloud(folder / f"cloud-{built.name}") as started:
        keys = Credentials(started.variables["AWS_ACCESS_KEY_ID"], started.variables["AWS_SECRET_ACCESS_KEY"])
        session = boto3.Session(keys.access_key, keys.secret_key, region_name=REGION)
        deploy(session, started.url, built.archive, built.variables)
        url = f"{started.url}/endpoints/{NAME}/invocations"
        name = f"tritonstack, {built.name}, InvokeEndpoint"
        backend = backend_of(installation, built)
        yield Server(name, backend, started.pid, url, sign=partial(signed, url, keys))


def signed(url: str, keys: Credentials, body: Body) -> dict[str, str]:
    """Return the headers of a signed request."""
    request = AWSRequest("POST", url, data=body.data, headers={"Content-Type": body.content_type})
    SigV4Auth(keys, "sagemaker", REGION).add_auth(request)
    return dict(request.headers.items())
