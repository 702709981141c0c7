"""Issues that users of other tools report, if the build prevents them.

Graphs of more than 2 GB (transformer-deploy #59, #67, #138) have their own file: test_large_graph.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from model_build.environments.packing import build_environment, installed_requirement
from model_build.errors import LayoutError
from model_build.repository.layout import ENSEMBLE_TEXT, check_layout
from model_build.repository.parts import SchedulingStep, add_ensemble
from tritonstack.records.manifests import TensorSpec

TEXT = TensorSpec(name="TEXT", datatype="BYTES", shape=(1,))


def test_multi_model_hosting_recognizes_an_ensemble_merlin_393(tmp_path: Path) -> None:
    """SageMaker's front end searches for the exact text `platform: "ensemble"` to choose what it loads."""
    steps = [SchedulingStep("part", {"TEXT": "TEXT"}, {"TEXT": "TEXT"})]
    add_ensemble(tmp_path, name="whole", inputs=[TEXT], outputs=[TEXT], steps=steps, max_batch=1)
    assert ENSEMBLE_TEXT.search((tmp_path / "whole" / "config.pbtxt").read_text())


def test_a_wrong_directory_layout_is_named_before_anything_is_packed(tmp_path: Path) -> None:
    (tmp_path / "config.pbtxt").write_text('name: "flat"\n')
    (tmp_path / "1").mkdir()
    with pytest.raises(LayoutError, match="at the top level is rejected by single-model hosting"):
        check_layout(tmp_path)


def test_a_python_environment_is_megabytes_not_a_huge_conda_pack(tmp_path: Path) -> None:
    environment = build_environment(
        [installed_requirement("tokenizers")],
        file=tmp_path / "env.tar.gz",
        cache_dir=tmp_path / "cache",
        dependencies=False,
    )
    assert environment.size_bytes < 20_000_000
