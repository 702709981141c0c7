"""Build the model, and serve its files with FastAPI."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.serving.load import Load, Server
from model_build.build import BuildFolders, build_model
from model_build.exporters.text_framework import TextFramework
from model_build.sources import fetch_source
from model_build.store.archive import unpack
from model_build.store.artifacts import read_manifest
from tritonstack.base.documents import load_document
from tritonstack.base.paths import Project
from tritonstack.records.manifests import ARCHIVE_NAME, Manifest
from tritonstack.spec.models.model import ModelSpec
from tritonstack.spec.models.recipes import TextEmbeddingRecipe
from tritonstack.spec.models.tolerance import ModelTolerance, PrecisionOption

MODEL = "minilm-embedding"


ACCEPT = ModelTolerance(cosine=0.97, relative=0.3)


PEER_PORT = 18100


PEER_SETTINGS = ((2, 1, 8), (1, 2, 8), (2, 1, 32))


"""Workers, threads of each, and texts padded together. The best of them in a first round is compared."""


@dataclass(frozen=True)
class Built:
    """A built model, unpacked."""

    manifest: Manifest
    archive: Path
    repository: Path

    def file(self, name: str) -> Path:
        """Return the only file of this name in the repository."""
        (found,) = self.repository.rglob(name)
        return found


def label(made: Built) -> str:
    """Return the precision of a build."""
    return made.manifest.precision


def built(project: Project, folder: Path, precision: PrecisionOption) -> Built:
    """Build the model and unpack its archive."""
    document = load_document(project.model_file(MODEL), ModelSpec)
    accept = document.record.accept if precision == "fp32" else ACCEPT
    record = document.record.model_copy(update={"precision": precision, "accept": accept})
    result = build_model(model=replace(document, record=record), folders=BuildFolders.of(project))
    manifest = read_manifest(result.artifact_dir)
    repository = folder / f"repository-{manifest.precision}"
    archive = result.artifact_dir / ARCHIVE_NAME
    unpack(archive, repository, limit_bytes=manifest.unpacked_bytes)
    return Built(manifest, archive, repository)


def graph_folder(folder: Path, made: Built) -> Path:
    """Return a folder with the graph and the tokenizer that Triton serves."""
    shutil.copytree(made.file("model.onnx").parent, folder)
    shutil.copy(made.file("tokenizer.json"), folder)
    return folder


def framework_folder(project: Project, folder: Path, made: Built) -> Path:
    """Return a folder with the model's source, and the tokenizer that Triton serves."""
    document = load_document(project.model_file(MODEL), ModelSpec)
    recipe, source = document.record.recipe, document.record.source
    if not isinstance(recipe, TextEmbeddingRecipe) or source is None:
        sys.exit(f"{MODEL} is not a text-embedding model, which this benchmark needs")
    fetched = fetch_source(source, model_folder=document.file.parent, cache_dir=project.cache_dir)
    framework = TextFramework(source=fetched, recipe=recipe)
    shutil.copytree(fetched.folder, folder)
    (folder / "tokenizer.json").write_text(framework.served_tokenizer(), encoding="utf-8")
    return folder


@contextmanager
def best_peer(project: Project, name: str, kind: str, files: Path, port: int, load: Load) -> Iterator[Server]:
    """Start a peer with each setting in turn, and keep the fastest."""
    rates = {}
    for setting in PEER_SETTINGS:
        with peer(project, name, kind, files, port, setting) as server:
            rates[setting] = load.run(server).rate
    with peer(project, name, kind, files, port, max(rates, key=lambda setting: rates[setting])) as server:
        yield server


@contextmanager
def peer(
    project: Project, name: str, kind: str, files: Path, port: int, setting: tuple[int, int, int]
) -> Iterator[Server]:
    """Start a peer with one setting."""
    workers, threads, group = setting
    arguments = [f"--{key}={value}" for key, value in (("workers", workers), ("threads", threads))]
    command = [sys.executable, "-m", "benchmarks.peers.embedding", f"--model={kind}", f"--folder={files}"]
    path = os.pathsep.join([str(project.state_dir / "peers"), str(project.root)])
    process = subprocess.Popen(
        [*command, f"--port={port}", f"--group={group}", *arguments],
        cwd=project.root,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": str(threads)},
    )
    try:
        url = f"http://127.0.0.1:{port}"
        wait_until_ready(f"{url}/ping", process)
        name = f"{name}, {workers}x{threads} threads, groups of {group}"
        yield Server(name, process.pid, f"{url}/invocations")
    finally:
        process.terminate()
        process.wait()


def wait_until_ready(url: str, process: subprocess.Popen[bytes]) -> None:
    """Return when a server answers; exit if it ends or takes too long."""
    for _ in range(600):
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(url, timeout=5):  # noqa: S310 - always http://127.0.0.1
                return
        except OSError:
            time.sleep(0.1)
    sys.exit(f"{url} does not answer")
