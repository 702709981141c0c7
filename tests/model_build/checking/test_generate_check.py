"""Language models are served and invoked before publishing, here by a strict stand-in for Triton."""

import json
import sys
from pathlib import Path

import pytest

from model_build import build as building
from model_build.build import BuildFolders, build_model
from model_build.checking.archive_checks import ServingReport
from model_build.checking.generate_check import GenerateCheck
from model_build.engines import machine
from model_build.errors import ServingError
from model_build.store.archive import pack
from tests.model_build.recipes.test_vllm import vllm_model
from tests.model_build.written_repositories import write_repository
from tritonstack.files.records.manifests import GenerationReport
from tritonstack.triton import TritonFailedError, TritonInstallation
from tritonstack.triton.sandbox import EXPOSE, why_no_namespaces

STAND_IN = Path(__file__).with_name("stand_in_generate.py")
pytestmark = pytest.mark.skipif(bool(why_no_namespaces()), reason="the server's files cannot be shown to it")


@pytest.fixture
def server(tmp_path: Path) -> TritonInstallation:
    """An installation whose tritonserver is the stand-in."""
    root = tmp_path / "server"
    (root / "bin").mkdir(parents=True)
    executable = root / "bin/tritonserver"
    # Not the virtual environment's: that may lie where the server's world of its own has other files.
    python = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    executable.write_text(STAND_IN.read_text().replace("#!python", f"#!{python}", 1))
    executable.chmod(0o755)
    return TritonInstallation(
        kind="embedded",
        root=root,
        executable=executable,
        version="2.57.0",
        release="25.04",
        backends=("python", "vllm"),
        backend_directory=root,
        cache_directory=root,
        outside=(Path(sys.base_prefix),),
    )


def serve(server: TritonInstallation, folder: Path, *, mode: str = "", damage: str = "") -> ServingReport:
    """Check a model whose server misbehaves as `mode` says; `damage` is a file to remove first."""
    repository = write_repository(vllm_model(folder), folder / "work", "sm86-25.04")
    (repository.folder / "tiny/1/config.json").unlink()  # a link to the source's
    (repository.folder / "tiny/1/config.json").write_text(json.dumps({"mode": mode}))
    if damage:
        (repository.folder / damage).unlink()
    check = GenerateCheck(
        installation=server,
        packed=pack(repository.folder, folder / "model.tar.gz"),
        entry=repository.entry,
        texts=("Hello", "Schöne neue Welt 東京"),
        work=folder / "serving",
    )
    return check.run()


def test_every_text_gets_the_same_answer(server, tmp_path):
    served = serve(server, tmp_path)
    assert served.generation == GenerationReport(cases=2, times=2, tokens=16)
    assert served.parity is None
    assert [(report.batch, report.requests) for report in served.latency] == [(1, 2)]


@pytest.mark.parametrize(
    ("mode", "value"),
    [
        ("wanders", "'Hello': 'olleH 1' and 'olleH 2'"),
        ("silent", "'Hello' returned status 200"),
        ("fails", "ValueError: CUDA out of memory"),
    ],
)
def test_a_model_that_does_not_answer_fails_the_check(server, tmp_path, mode, value):
    with pytest.raises(ServingError) as caught:
        serve(server, tmp_path, mode=mode)
    assert value in str(caught.value)


def test_an_archive_without_its_weights_does_not_start(server, tmp_path):
    with pytest.raises(TritonFailedError, match="/opt/ml/model/tiny/1"):
        serve(server, tmp_path, damage="tiny/1/model.safetensors")


def test_missing_namespaces_are_explained(server, tmp_path, monkeypatch):
    monkeypatch.setenv(EXPOSE, "1")
    monkeypatch.setattr("tritonstack.triton.server.why_no_namespaces", lambda: "as the test wants it")
    with pytest.raises(ServingError, match="/opt/ml/model"):
        serve(server, tmp_path)


@pytest.fixture
def folders(server: TritonInstallation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BuildFolders:
    """Folders of builds that use the stand-in."""
    monkeypatch.setattr(building, "find_installation", lambda **_: server)
    monkeypatch.setattr(machine, "has_gpu", lambda: True)
    return BuildFolders(tmp_path / "artifacts", tmp_path / "cache", tmp_path / "server")


def test_a_build_records_what_was_verified(folders, tmp_path):
    model = vllm_model(tmp_path / "models/tiny")
    artifact = build_model(model=model, folders=folders, targets=["sm86-25.04-py312", "sm86-25.04"])
    manifest = artifact.manifest
    assert manifest.generation == GenerationReport(cases=1, times=2, tokens=16)
    assert manifest.parity == ()
    assert (manifest.target, manifest.max_batch) == ("sm86-25.04", 0)
    assert [tensor.name for tensor in (*manifest.inputs, *manifest.outputs)] == ["text_input", "text_output"]
    assert (artifact.artifact_dir / "model.tar.gz").is_file()
