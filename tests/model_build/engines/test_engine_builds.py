"""Builds of archives with engines, on a machine with a simulated GPU."""

import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from model_build.build import build_model
from model_build.engines import machine
from model_build.progress import Progress
from tests.model_build.engines.stand_in_machine import simulated_machine, simulated_server
from tests.model_build.tiny import write_model_file
from tritonstack.base.errors import UsageError
from tritonstack.base.yaml import Document, load_document
from tritonstack.files.model.model import ModelSpec

TARGET = "sm86-24.09"


def engine_model(
    folder: Path, source: Path, *, extra: str = "", recipe: str = "text-embedding, input: tokens"
) -> Document[ModelSpec]:
    fields = f"kind: {recipe}, max_length: 24, format: tensorrt"
    return load_document(write_model_file(folder, recipe=fields, source=source, extra=extra), ModelSpec)


def test_missing_tensorrt_is_reported_before_anything_is_fetched(tmp_path, folders, monkeypatch):
    simulated_machine(tmp_path / "machine", monkeypatch, release="24.09", capability="8.6")
    monkeypatch.setattr(machine, "TRTEXEC", tmp_path / "nothing")
    events: list[Progress] = []
    model = engine_model(tmp_path / "model", tmp_path / "no-source")
    with pytest.raises(UsageError, match="no TensorRT"):
        build_model(model=model, folders=folders, targets=[TARGET], on_progress=events.append)
    assert events == []


@pytest.mark.soak
def test_an_engine_is_built_served_and_stored(tmp_path, tiny_folder, folders, monkeypatch):
    here = simulated_machine(tmp_path / "machine", monkeypatch, release="24.09", capability="8.6")
    home = simulated_server(tmp_path / "server", folders.server, monkeypatch, capability="8.6")
    folders = replace(folders, server=home)
    profiles = "[{batch: {opt: 2, max: 4}}, {}]"
    extra = f"precision: fp16\naccept: {{cosine: 0.999}}\ntensorrt: {{profiles: {profiles}}}\n"
    model = engine_model(tmp_path / "model", tiny_folder, extra=extra)
    result = build_model(model=model, folders=folders, targets=[TARGET])
    manifest = result.manifest
    assert (manifest.target, manifest.precision, manifest.tensorrt) == (TARGET, "fp16", "10.4.0.26")
    assert {entry.path for entry in manifest.files} == {"tiny/1/model.plan", "tiny/config.pbtxt"}
    assert [report.stage for report in manifest.parity] == ["graph", "served"]
    assert [tensor.datatype for tensor in manifest.inputs] == ["INT64", "INT64"]
    assert {"--profile=0", "--profile=1"} <= set(here.commands()[0])
    assert build_model(model=model, folders=folders, targets=[TARGET]).reused


@pytest.mark.soak
@pytest.mark.parametrize(
    ("release", "wide", "extra"),
    [("24.09", "INT64", "tensorrt: {version_compatible: true}\n"), ("24.03", "INT32", "precision: fp16\n")],
)
def test_texts_are_served_by_engines_of_any_version(
    release, wide, extra, tmp_path, tiny_folder, folders, monkeypatch
):
    """The tokenizer returns the integer type that the engine takes, and the server trusts it if necessary."""
    simulated_machine(tmp_path / "machine", monkeypatch, release=release, capability="8.6")
    home = simulated_server(tmp_path / "server", folders.server, monkeypatch, capability="8.6")
    model = engine_model(tmp_path / "model", tiny_folder, extra=extra, recipe="text-embedding")
    folders = replace(folders, server=home)
    manifest = build_model(model=model, folders=folders, targets=[f"sm86-{release}"]).manifest
    assert [tensor.name for tensor in manifest.inputs] == ["TEXT"]
    assert [report.stage for report in manifest.parity] == ["graph", "served"]
    with tarfile.open(next(folders.artifacts.rglob("model.tar.gz"))) as archive:
        files = {name: archive.extractfile(f"{name}/config.pbtxt") for name in ("model", "tokenizer")}
        configs = {name: file.read().decode() for name, file in files.items() if file}
    assert configs["model"].count(f"TYPE_{wide}") == configs["tokenizer"].count(f"TYPE_{wide}") == 2
