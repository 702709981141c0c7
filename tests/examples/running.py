"""Run one example as `make examples` does, and its train.py once more."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import onnx

from tools.examples import GALLERY, ExampleResult, run_example
from tritonstack.base.paths import Project
from tritonstack.operate.shared.local_cloud import read_address

SLOWEST_MS = 1000.0


def passed(name: str, folder: Path) -> ExampleResult:
    """Run an example's README, check what it shows, and that train.py writes the same weights each time."""
    result = run_example(name, folder / name, log=folder / "log.txt")
    assert result.models
    assert result.yaml_lines
    for model in result.models:
        assert model.size_bytes > 0
        assert model.p50_ms is None or 0 < model.p50_ms < SLOWEST_MS, model
    assert read_address(Project(folder / name).cloud_dir()) is None
    trained = _trained(name, folder / "again")
    assert trained
    for file, digest in trained.items():
        assert _digest(folder / name / file) == digest, file
    return result


def _trained(name: str, folder: Path) -> dict[str, str]:
    """Run train.py in a copy of an example; return the digests of the files that it writes."""
    shutil.copytree(GALLERY / name, folder, ignore=shutil.ignore_patterns("weights", "__pycache__"))
    before = {file for file in folder.rglob("*") if file.is_file()}
    subprocess.run(
        [sys.executable, "train.py"],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONHASHSEED": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": "1",  # on a busy machine, threads wait for each other for minutes
        },
        check=True,
        capture_output=True,
        timeout=900,
    )
    files = sorted(file for file in folder.rglob("*") if file.is_file() and file not in before)
    return {str(file.relative_to(folder)): _digest(file) for file in files}


def _digest(file: Path) -> str:
    return hashlib.sha256(_content(file)).hexdigest()


def _content(file: Path) -> bytes:
    """Return a file's bytes, without the metadata of an ONNX graph, or the tensors of a TorchScript archive.

    Both contain paths of their sources, and the archive's code has constants in the order of a Python set.
    """
    if file.suffix == ".onnx":
        model = onnx.load(file)
        for part in (model, model.graph, *model.graph.node, *model.graph.value_info):
            del part.metadata_props[:]
        return bytes(model.SerializeToString(deterministic=True))
    if file.suffix != ".pt":
        return file.read_bytes()
    with zipfile.ZipFile(file) as archive:
        tensors = sorted(name for name in archive.namelist() if "/data/" in name)
        assert tensors
        return b"".join(archive.read(name) for name in tensors)
