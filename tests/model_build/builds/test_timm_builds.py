"""timm models, from model.yaml to an artifact that a real Triton serves in both hosting modes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from model_build.build import BuildFolders, build_model
from tests.model_build.tiny_tasks import write_model_file
from tests.model_build.tiny_timm import save_timm_model, shared_cache
from tritonstack.base.errors import InvalidFilesError
from tritonstack.base.yaml import load_document
from tritonstack.records.manifests import Manifest
from tritonstack.spec.models.model import ModelSpec


def built(folder: Path, folders: BuildFolders, recipe: str, source: Path) -> Manifest:
    from model_build.exporters.image_preparation import encoded  # which takes seconds

    random = np.random.default_rng(2)
    for name in ("a.png", "b.png"):
        (folder / name).write_bytes(encoded(random.integers(0, 256, (90, 70, 3), dtype=np.uint8)))
    tests = ("image: a.png", "image: b.png")
    file = write_model_file(folder, recipe=recipe, source=source, tests=tests)
    if not (folders.cache / "packages").exists():
        (shared_cache() / "packages").mkdir(exist_ok=True)
        (folders.cache / "packages").symlink_to(shared_cache() / "packages")
    return build_model(model=load_document(file, ModelSpec), folders=folders).manifest


@pytest.mark.soak
def test_a_classifier_of_timm(tmp_path: Path, folders: BuildFolders) -> None:
    source = save_timm_model(tmp_path / "weights")
    manifest = built(tmp_path, folders, "kind: image-classification, library: timm", source)
    assert {report.stage for report in manifest.parity} == {"graph", "served"}
    assert [(output.name, output.datatype, output.shape) for output in manifest.outputs] == [
        ("scores", "FP32", (3,))
    ]
    assert manifest.outputs[0].labels == ("label 0", "label 1", "label 2")
    assert [tensor.name for tensor in manifest.inputs] == ["IMAGE"]
    assert manifest.tools["timm"] == "1.0.31"
    assert manifest.tools["torchvision"].startswith("0.28.")
    other = BuildFolders(tmp_path / "other", folders.cache, folders.server)
    again = built(tmp_path, other, "kind: image-classification, library: timm", source)
    assert again.digest == manifest.digest
    with pytest.raises(
        InvalidFilesError, match=r"model\.yaml:4: recipe: .*timm model(.|\n)*set `library: timm`"
    ):
        built(tmp_path, other, "kind: image-classification", source)


@pytest.mark.soak
@pytest.mark.parametrize("options", ["", ", input: pixels"])
def test_embeddings_of_timm(tmp_path: Path, folders: BuildFolders, options: str) -> None:
    source = save_timm_model(tmp_path / "weights", "test_vit")
    manifest = built(tmp_path, folders, f"kind: image-embedding, library: timm{options}", source)
    assert {report.stage for report in manifest.parity} == {"graph", "served"}
    assert [(output.name, output.shape) for output in manifest.outputs] == [("embedding", (64,))]
    assert manifest.unused_weights == ("head.bias", "head.weight")
