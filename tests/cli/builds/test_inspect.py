"""`tritonstack inspect`: the contents of packed archives, of locks, and of models that were never built."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from model_build.store.archive import pack
from model_build.store.artifacts import ArtifactStore
from tests.manifests import manifest, measured
from tests.projects import edit
from tritonstack.base.paths import Project
from tritonstack.cli.main import run
from tritonstack.files.loading import load_models
from tritonstack.files.records.examples import Examples
from tritonstack.files.records.lock_writing import write_lock
from tritonstack.files.records.locks import Lock
from tritonstack.files.records.manifests import CandidateReport, EnvironmentReport, Manifest, TensorSpec
from tritonstack.files.sources.model_hashes import model_hash

ENSEMBLE = """\
name: "minilm"
platform: "ensemble"
ensemble_scheduling {
  step {
    model_name: "tokenizer"
    model_version: -1
    input_map { key: "TEXT" value: "TEXT" }
    output_map { key: "ids" value: "input_ids" }
    output_map { key: "mask" value: "attention_mask" }
  }
  step {
    model_name: "graph"
    model_version: -1
    input_map { key: "input_ids" value: "input_ids" }
    input_map { key: "attention_mask" value: "attention_mask" }
    output_map { key: "embedding" value: "embedding" }
  }
}
"""


@pytest.fixture
def inspect(project, capfd):
    def command(*arguments: str, json_output: bool = False) -> tuple[int, str, str]:
        options = ["--project", str(project.root), *(["--json"] if json_output else [])]
        code = run([*options, "inspect", *arguments])
        return code, *capfd.readouterr()

    return command


def build(project: Project, folder: Path, *, weights: bytes = b"weights") -> Manifest:
    """Pack an ensemble of two models as a build does, and store it for the present files."""
    for name, config in {
        "minilm": ENSEMBLE,
        "tokenizer": 'name: "tokenizer"\nbackend: "python"\n',
        "graph": 'name: "graph"\nbackend: "onnxruntime"\n',
    }.items():
        (folder / name / "1").mkdir(parents=True)
        (folder / name / "config.pbtxt").write_text(config)
    (folder / "graph" / "1" / "model.onnx").write_bytes(weights)
    packed = pack(folder, folder.with_suffix(".tar.gz"))
    artifact = manifest(
        "minilm",
        digest=packed.digest,
        spec_hash=model_hash("minilm", load_models(project, "minilm")),
        files=packed.files,
        inputs=(TensorSpec(name="TEXT", datatype="BYTES", shape=(1,)),),
        outputs=(TensorSpec(name="embedding", datatype="FP32", shape=(384,), labels=("a", "b")),),
        archive_bytes=packed.size_bytes,
        environments=(
            EnvironmentReport(
                path="tokenizer/env.tar.gz",
                sha256="ab" * 32,
                size_bytes=1,
                unpacked_bytes=3 << 20,
                packages=("tokenizers==0.23.3",),
                pythons=("py310",),
            ),
        ),
        candidates=(
            CandidateReport(
                name="int8", precision="int8", kept=False, reason="cosine 0.5 < 0.97", size_bytes=1 << 20
            ),
        ),
        **measured(),
    )
    examples = Examples(model="minilm", digest=artifact.digest, texts=("a",))
    ArtifactStore(artifacts_dir=project.artifacts_dir, model="minilm").keep(packed.file, examples, artifact)
    return artifact


def archive_of(project: Project, artifact: Manifest) -> Path:
    return project.artifacts_dir / "models" / "minilm" / artifact.digest / "model.tar.gz"


def test_a_built_model_is_shown_in_full(project, inspect, tmp_path):
    artifact = build(project, tmp_path / "repository")
    write_lock(project.lock_file("dev"), Lock().with_artifact(artifact))
    code, out, err = inspect("minilm")
    assert (code, err) == (0, "")
    short = artifact.digest[:12]
    for expected in (
        f"  {short}  cpu  up to date, on this machine, locked in dev\n",
        "  input TEXT: BYTES [1]\n",
        "  output embedding: FP32 [384], labels a, b\n",
        "    int8: rejected: cosine 0.5 < 0.97, 1.0 MB\n",
        "  parity (served, 8 cases): cosine ≥ 0.999900, error ≤ 1.0e-07\n",
        "  latency, batch 1: p50 1 ms, p99 4.5 ms\n",
        "  tokenizer/env.tar.gz: 3.1 MB unpacked for py310\n    tokenizers==0.23.3\n",
        "  graph:\n"
        "    minilm (ensemble): TEXT -> embedding\n"
        "      tokenizer (python): TEXT -> attention_mask, input_ids\n"
        "      graph (onnxruntime): attention_mask, input_ids -> embedding\n",
        'graph/config.pbtxt:\n  name: "graph"\n  backend: "onnxruntime"\n',
    ):
        assert expected in out
    document = json.loads(inspect("minilm", json_output=True)[1])
    assert document["configs"] == {
        "minilm": ENSEMBLE,
        "graph": 'name: "graph"\nbackend: "onnxruntime"\n',
        "tokenizer": 'name: "tokenizer"\nbackend: "python"\n',
    }
    assert document["manifest"]["digest"] == document["shown"] == artifact.digest


def test_the_artifact_of_the_present_files_is_preferred(project, inspect, tmp_path):
    current = build(project, tmp_path / "now")
    edit(project.model_file("minilm"), "text-embedding", "text-embedding\n  normalize: false")
    other = build(project, tmp_path / "changed", weights=b"other")
    assert json.loads(inspect("minilm", json_output=True)[1])["shown"] == other.digest
    _, out, _ = inspect("minilm", "--digest", current.digest[:8])
    assert f"\n{current.digest[:12]}:\n" in out
    assert f"{current.digest[:12]}  cpu  of other" in out


def test_a_model_that_was_never_built(project, inspect):
    edit(project.model_file("minilm"), "recipe:", "precision: auto\nrecipe:")
    code, out, err = inspect("minilm")
    assert (code, err) == (0, "")
    assert "  precision: auto\n" in out
    assert "`tritonstack build <environment>`" in out
    assert "tolerance (`accept`)" in out
    assert not project.artifacts_dir.exists()


@pytest.mark.parametrize(("digest", "count"), [("f00d", 0), ("", 2)])
def test_an_unknown_or_ambiguous_digest(project, inspect, tmp_path, digest, count):
    digests = [build(project, tmp_path / name, weights=name.encode()).digest for name in ("one", "two")]
    code, _, err = inspect("minilm", "--digest", digest)
    assert code == 2
    assert f"digest '{digest}' matches {count} artifacts of 'minilm'" in err
    assert all(digest_of_one[:12] in err for digest_of_one in digests)
    assert ("write more" in err) == (count > 1)


def test_a_damaged_archive(project, inspect, tmp_path):
    artifact = build(project, tmp_path / "repository")
    archive = archive_of(project, artifact)
    archive.write_bytes(archive.read_bytes()[:100])
    code, _, err = inspect("minilm")
    assert code == 1
    assert str(archive) in err
    assert "help:" in err


def test_a_damaged_manifest_is_skipped_and_named(project, inspect, tmp_path):
    artifact = build(project, tmp_path / "repository")
    archive_of(project, artifact).with_name("manifest.json").write_text("{")
    code, out, err = inspect("minilm")
    assert code == 0
    assert "decides:" in out
    assert "skipped: " in err
