"""Generated projects of any size, with artifacts that the local cloud can serve without Triton."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import shutil
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.manifests import manifest
from tests.projects import EMPTY_WEIGHTS
from tritonstack.base.embedded_accounts import EMBEDDED_ACCOUNT
from tritonstack.base.naming import artifact_prefix
from tritonstack.base.paths import Project, find_project
from tritonstack.files.loading import load_workspace
from tritonstack.files.records.lock_writing import write_lock
from tritonstack.files.records.locks import Lock, LockedArtifact

ENVIRONMENT, TARGET_ENVIRONMENT = "bench", "next"
INSTANCE_TYPE, TARGET = "ml.c7i.xlarge", "cpu"
Content = tuple[list[str], dict[str, dict[str, object]]]
"""The models and the endpoints of a project."""


def many_models(count: int) -> Content:
    """Return one multi-model endpoint with many models."""
    models = [f"encoder-{number}" for number in range(count)]
    return models, {"many": {"kind": "multi-model", "models": models, "instance_type": INSTANCE_TYPE}}


def many_endpoints(count: int) -> Content:
    """Return endpoints with a model each."""
    models = [f"encoder-{number}" for number in range(count)]
    endpoints: dict[str, dict[str, object]] = {
        f"search-{number}": {"kind": "ensemble", "model": model, "instance_type": INSTANCE_TYPE}
        for number, model in enumerate(models)
    }
    return models, endpoints


def write_growing_project(folder: Path, content: Content) -> Project:
    """Write a project with two environments; all models are built in the first one."""
    models, endpoints = content
    project, here = Project(folder), find_project(Path(__file__).parent)
    folder.mkdir(parents=True)
    for name in ("app.py", "cdk.json"):
        shutil.copy(here.root / name, folder)
    (folder / "node_modules").symlink_to(here.root / "node_modules")
    for model in models:
        recipe = {"kind": "text-embedding"}
        spec = {"name": model, "description": model, "source": "file://weights", "recipe": recipe}
        _write_json(project.model_file(model), {**spec, "test_inputs": ["a text"]})
        weights = project.model_file(model).parent / "weights" / "model.safetensors"
        weights.parent.mkdir()
        weights.write_bytes(EMPTY_WEIGHTS)
    for name, promotion in ((ENVIRONMENT, None), (TARGET_ENVIRONMENT, {"source": ENVIRONMENT})):
        environment = {
            "name": name,
            "account": EMBEDDED_ACCOUNT,
            "region": "us-east-1",
            "triton_release": "25.04",
            "removal": "destroy",
            **({"promotion": {**promotion, "verified": False}} if promotion else {}),
            "endpoints": endpoints,
        }
        _write_json(project.environment_file(name), environment)
    hashes = load_workspace(project, ENVIRONMENT).hashes
    write_lock(project.lock_file(ENVIRONMENT), locked(project, hashes.items()))
    return project


def locked(project: Project, hashes: Iterable[tuple[str, str]]) -> Lock:
    """Return a lock of artifacts, which it writes to the project's store."""
    return Lock(models={name: {TARGET: _build(project, name, spec_hash)} for name, spec_hash in hashes})


def _build(project: Project, model: str, spec_hash: str) -> LockedArtifact:
    """Write an artifact to the local store."""
    archive = _archive(f'name: "{model}"\nbackend: "python"\n'.encode())
    digest = hashlib.sha256(archive).hexdigest()
    folder = project.artifacts_dir / artifact_prefix(model, digest)
    folder.mkdir(parents=True)
    (folder / "model.tar.gz").write_bytes(archive)
    size = len(archive)
    built = manifest(model, digest=digest, spec_hash=spec_hash, archive_bytes=size, unpacked_bytes=size)
    (folder / "manifest.json").write_text(built.to_json())
    return LockedArtifact(digest=digest, spec_hash=spec_hash, archive_bytes=size, unpacked_bytes=size)


def _archive(config: bytes) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        entry = tarfile.TarInfo("model/config.pbtxt")
        entry.size = len(config)
        archive.addfile(entry, io.BytesIO(config))
    return gzip.compress(packed.getvalue(), mtime=0)


def _write_json(file: Path, content: Mapping[str, object]) -> None:
    """Write JSON, which is valid YAML."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content))
