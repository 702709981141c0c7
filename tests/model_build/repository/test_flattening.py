"""Ensembles as steps of ensembles: their parts, names, and unused outputs."""

from pathlib import Path

import pytest

from model_build.repository.config import read_config
from model_build.repository.flattening import (
    MemberFolder,
    copy_parts,
    flat_steps,
    needed_steps,
    share_environments,
)
from model_build.repository.parts import SchedulingStep, add_ensemble, add_python_model, environment_file
from tritonstack.files.model.triton_options import Batching
from tritonstack.files.records.manifests import TensorSpec

TEXT = TensorSpec(name="TEXT", datatype="BYTES", shape=(1,))
IDS = TensorSpec(name="ids", datatype="INT64", shape=(-1,))
VECTOR = TensorSpec(name="vector", datatype="FP32", shape=(8,))
NORM = TensorSpec(name="norm", datatype="FP32", shape=(1,))


@pytest.fixture
def inner(tmp_path: Path) -> MemberFolder:
    """TEXT -> cut -> ids -> run -> vector, and norm from a separate part."""
    folder = tmp_path / "inner"
    code = tmp_path / "code.py"
    code.write_text("")
    for name, takes, gives in (("cut", TEXT, IDS), ("run", IDS, VECTOR), ("length", IDS, NORM)):
        add_python_model(
            folder, name=name, code=code, inputs=[takes], outputs=[gives], batching=Batching(max_batch=4)
        )
    steps = [
        SchedulingStep("cut", {"TEXT": "TEXT"}, {"ids": "ids"}),
        SchedulingStep("run", {"ids": "ids"}, {"vector": "vector"}),
        SchedulingStep("length", {"ids": "ids"}, {"norm": "norm"}),
    ]
    add_ensemble(folder, name="words", inputs=[TEXT], outputs=[VECTOR, NORM], steps=steps, max_batch=4)
    return MemberFolder("words", "words", folder)


def test_nested_ensemble_steps_are_flattened(inner):
    flat = list(flat_steps(inner, 1, {"TEXT": "query"}, {"vector": "point"}))
    assert flat == [
        SchedulingStep("words-cut", {"TEXT": "query"}, {"ids": "step2-ids"}),
        SchedulingStep("words-run", {"ids": "step2-ids"}, {"vector": "point"}),
        SchedulingStep("words-length", {"ids": "step2-ids"}, {"norm": "step2-norm"}),
    ]
    assert [step.model for step in needed_steps(flat, ["point"])] == ["words-cut", "words-run"]


def test_parts_get_unique_names(inner, tmp_path):
    config = inner.folder / "cut/config.pbtxt"
    config.write_text("# written by hand\n" + config.read_text())
    copy_parts(inner, tmp_path / "whole", {"words-cut", "words-run"})
    assert sorted(entry.name for entry in (tmp_path / "whole").iterdir()) == ["words-cut", "words-run"]
    copied = tmp_path / "whole/words-cut/config.pbtxt"
    assert copied.read_text() == config.read_text().replace('name: "cut"', 'name: "words-cut"')
    assert read_config(copied).input[0].name == "TEXT"


def test_names_in_unusual_places_are_renamed_too(inner, tmp_path):
    config = inner.folder / "cut/config.pbtxt"
    text = config.read_text().replace('name: "cut"\n', "")
    config.write_text(text + "name\n:\n  'cut'\n")
    copy_parts(inner, tmp_path / "whole", {"words-cut"})
    renamed = read_config(tmp_path / "whole/words-cut/config.pbtxt")
    assert (renamed.name, renamed.max_batch_size) == ("words-cut", 4)


def test_identical_packages_are_stored_once(inner):
    for name, content in (("cut", b"one"), ("length", b"other"), ("run", b"one")):
        environment_file(inner.folder, name).write_bytes(content)
    assert share_environments(inner.folder) == {"cut": "cut", "length": "length", "run": "cut"}
    assert not environment_file(inner.folder, "run").exists()
    paths = [
        read_config(inner.folder / name / "config.pbtxt").parameters["EXECUTION_ENV_PATH"].string_value
        for name in ("cut", "length", "run")
    ]
    own, shared = "$$TRITON_MODEL_DIRECTORY/env.tar.gz", "$$TRITON_MODEL_DIRECTORY/../cut/env.tar.gz"
    assert paths == [own, own, shared]
