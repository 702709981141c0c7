"""Precision levels, from model.yaml to a served archive."""

from pathlib import Path

import pytest

from model_build.build import build_model
from model_build.layouts import texts
from model_build.repository.config import read_config
from model_build.store.archive import unpack
from model_build.store.artifacts import read_manifest
from tests.model_build.supplied_models import save_onnx, write_supplied
from tests.model_build.tiny import write_model_file
from tests.model_build.tiny_tasks import LABELS, save_text_model
from tritonstack.base.yaml import load_document
from tritonstack.files.model.model import ModelSpec

pytestmark = pytest.mark.soak


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("classifier")
    return save_text_model(folder, "BertForSequenceClassification", labels=LABELS)


def write_classifier(folder: Path, source: Path, precision: str) -> Path:
    recipe, extra = "kind: text-classification, max_length: 24", f"precision: {precision}\n"
    return write_model_file(folder, recipe=recipe, source=source, name="moods", extra=extra)


def test_auto_records_all_and_a_recorded_choice_reproduces_the_artifact(tmp_path, classifier, folders):
    file = write_classifier(tmp_path, classifier, "auto")
    with file.open("a") as stream:
        stream.write("accept: {cosine: 0.9, absolute: 0.5}\n")
    model = load_document(file, ModelSpec)
    result = build_model(model=model, folders=folders)
    first = read_manifest(result.artifact_dir)
    *graphs, merged, split = first.candidates
    assert [candidate.name for candidate in graphs] == ["fp32", "bf16", "int8"]
    assert all(candidate.parity for candidate in graphs), "each can be made of this graph"
    (chosen,) = (candidate for candidate in graphs if candidate.kept)
    assert (chosen.precision, chosen.parity) == (first.precision, first.parity[0])
    assert (merged.name, split.name) == ("one model", "two models")
    assert merged.kept is not split.kept
    for layout in (merged, split):
        assert layout.precision == first.precision
        ((callers, milliseconds),) = layout.latency_ms.items()
        assert callers.endswith(" callers")
        assert milliseconds > 0
        assert layout.reason
    assert merged.size_bytes > split.size_bytes, "it contains ONNX Runtime"
    assert first.choices["moods"].startswith("fp32"), "a tiny graph gains nothing"
    other = build_model(model=model, folders=folders, choices={"moods": "int8"})
    assert (other.manifest.choices, other.manifest.precision) == ({"moods": "int8"}, "int8")
    assert not other.reused
    assert other.manifest.digest != first.digest
    again = build_model(model=model, folders=folders, choices=first.choices)
    assert (again.reused, again.manifest.digest) == (True, first.digest)


def test_a_recorded_layout_reproduces_the_artifact(tmp_path, classifier, folders, monkeypatch):
    """The real server also gets concurrent texts of several lengths, which the tokenizer pads in groups."""
    monkeypatch.setattr(texts, "GROUPS_FROM_BYTES", 0)
    model = load_document(write_classifier(tmp_path, classifier, "auto"), ModelSpec)
    manifests = {
        choice: build_model(model=model, folders=folders, choices={"moods": choice}).manifest
        for choice in ("fp32", "fp32; two models")
    }
    for choice, manifest in manifests.items():
        assert manifest.choices == {"moods": choice}
        assert next(candidate.name for candidate in manifest.candidates if candidate.kept) == "fp32"
    parts = {
        choice: {file.path.split("/")[0] for file in manifest.files} for choice, manifest in manifests.items()
    }
    assert parts == {
        "fp32": {"model", "moods"},
        "fp32; two models": {"model", "moods", "tokenizer"},
    }


@pytest.mark.parametrize("kind", ["texts", "a graph"])
def test_bf16_is_served_in_openvino(kind, tmp_path, classifier, folders):
    if kind == "texts":
        file = write_classifier(tmp_path, classifier, "bf16")
        model, part = load_document(file, ModelSpec), "model"
    else:
        save_onnx(tmp_path / "model/weights/model.onnx")
        requests = [{"inputs": {"x": [1.0, 2.0, 3.5]}}, {"random": {"rows": 5}}]
        extra = {"precision": "bf16", "triton": {"warm_up": True}}
        model = write_supplied(tmp_path / "model", {"kind": "onnx"}, test_inputs=requests, **extra)
        part = "tiny"
    manifest = (artifact := build_model(model=model, folders=folders)).manifest
    assert (manifest.precision, manifest.parity[-1].stage) == ("bf16", "served")
    assert [candidate.name for candidate in manifest.candidates] == ["bf16"]
    unpack(artifact.artifact_dir / "model.tar.gz", tmp_path / "unpacked", limit_bytes=1 << 30)
    config = read_config(tmp_path / "unpacked" / part / "config.pbtxt")
    assert (config.backend, config.max_batch_size) == ("openvino", 0)
    assert config.parameters["HINT_BF16"].string_value == "YES"
    assert "INFERENCE_NUM_THREADS" not in config.parameters
    assert [group.count for group in config.instance_group] == [1]
    assert all(tensor.dims[0] == -1 for tensor in (*config.input, *config.output))
