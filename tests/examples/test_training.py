"""Every train.py writes the same weights each time."""

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import onnx
import pytest

from tools.examples import GALLERY, example_names


def trained(name: str, folder: Path, *, hash_seed: str) -> dict[str, str]:
    """Run train.py in a copy of an example; return the digests of the files that it writes."""
    shutil.copytree(GALLERY / name, folder, ignore=shutil.ignore_patterns("weights", "__pycache__"))
    before = {file for file in folder.rglob("*") if file.is_file()}
    subprocess.run(
        [sys.executable, "train.py"],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONHASHSEED": hash_seed,
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": "1",  # on a busy machine, threads wait for each other for minutes
        },
        check=True,
        capture_output=True,
        timeout=900,
    )
    files = sorted(file for file in folder.rglob("*") if file.is_file() and file not in before)
    return {str(file.relative_to(folder)): hashlib.sha256(_content(file)).hexdigest() for file in files}


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


@pytest.mark.soak
@pytest.mark.parametrize("name", example_names())
def test_training_is_reproducible(name, tmp_path):
    first = trained(name, tmp_path / "first", hash_seed="1")
    assert first
    assert trained(name, tmp_path / "second", hash_seed="2") == first
