"""The generated repository, and layouts that SageMaker's hosting modes reject."""

import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from model_build.environments.packing import build_environment
from model_build.errors import LayoutError
from model_build.repository.config import read_config
from model_build.repository.layout import check_layout
from model_build.repository.parts import (
    SchedulingStep,
    add_ensemble,
    add_graph_model,
    add_python_model,
    environment_file,
)
from model_build.store.archive import pack
from tests.model_build.linting.given_repositories import PROGRAM, findings
from tests.model_build.repository.tiny_repositories import a_graph
from tests.projects import edit
from tritonstack.facts.targets import Target
from tritonstack.files.model.triton_options import Batching, TritonOptions
from tritonstack.files.records.manifests import TensorSpec

TEXT = TensorSpec(name="TEXT", datatype="BYTES", shape=(1,))
IDS = TensorSpec(name="ids", datatype="INT64", shape=(-1,))
VECTOR = TensorSpec(name="vector", datatype="FP32", shape=(8,))
BATCHING = Batching(max_batch=4, queue_delay_us=100)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    code = tmp_path / "code.py"
    code.write_text(PROGRAM)
    add_python_model(folder, name="cut", code=code, inputs=[TEXT], outputs=[IDS], batching=BATCHING)
    graph = a_graph(tmp_path / "exported", inputs=(IDS,), outputs=(VECTOR,))
    add_graph_model(
        folder, name="run", graph=graph, batching=BATCHING, triton=TritonOptions(), target=Target("cpu")
    )
    steps = [
        SchedulingStep("cut", {"TEXT": "TEXT"}, {"ids": "ids"}),
        SchedulingStep("run", {"ids": "ids"}, {"vector": "vector"}),
    ]
    add_ensemble(folder, name="whole", inputs=[TEXT], outputs=[VECTOR], steps=steps, max_batch=4)
    return folder


def test_configurations_contain_the_requested_options(repository):
    steps = read_config(repository / "whole/config.pbtxt").ensemble_scheduling.step
    assert [step.model_name for step in steps] == ["cut", "run"]
    python = read_config(repository / "cut" / "config.pbtxt")
    assert (python.backend, python.max_batch_size) == ("python", 4)
    assert python.dynamic_batching.max_queue_delay_microseconds == 0, "requests wait once, for the graph"
    assert python.parameters["EXECUTION_ENV_PATH"].string_value == "$$TRITON_MODEL_DIRECTORY/env.tar.gz"
    onnx = read_config(repository / "run" / "config.pbtxt")
    assert onnx.backend == "onnxruntime"
    assert onnx.dynamic_batching.max_queue_delay_microseconds == 100
    assert [list(tensor.dims) for tensor in onnx.output] == [[8]]


Damage = Callable[[Path], object]


def put(name: str, text: str | bytes) -> Damage:
    """Write a file."""
    return lambda folder: (folder / name).write_bytes(text.encode() if isinstance(text, str) else text)


def append(name: str, text: str) -> Damage:
    return lambda folder: (folder / name).write_text(f"{(folder / name).read_text()}{text}\n")


def replace(name: str, old: str, new: str) -> Damage:
    return lambda folder: edit(folder / name, old, new)


def move(old: str, new: str) -> Damage:
    return lambda folder: (folder / old).rename(folder / new)


def copy(old: str, new: str) -> Damage:
    return lambda folder: shutil.copytree(folder / old, folder / new)


def copy_model(old: str, new: str) -> Damage:
    def damage(folder: Path) -> None:
        shutil.copytree(folder / old, folder / new)
        edit(folder / f"{new}/config.pbtxt", f'name: "{old}"', f'name: "{new}"')

    return damage


def remove(name: str) -> Damage:
    return lambda folder: shutil.rmtree(folder / name)


PLATFORM = 'platform: "ensemble"'
DECOUPLED = append("cut/config.pbtxt", "model_transaction_policy { decoupled: true }")
INVALID: Mapping[str, tuple[Damage, str]] = {
    "blank before the colon": (replace("whole/config.pbtxt", "platform:", "platform :"), "ensemble whole"),
    "backend ensemble": (replace("whole/config.pbtxt", PLATFORM, 'backend: "ensemble"'), "backend: "),
    "no code": (move("cut/1/model.py", "cut/1/code.py"), "cut/1 has no model.py"),
    "no graph": (move("run/1/model.onnx", "run/1/graph.onnx"), "run/1 has no model.onnx"),
    "version in words": (move("run/1", "run/first"), "run has no numeric version"),
    "version with zeros": (move("run/1", "run/01"), "run/01 starts like a version"),
    "version without end": (copy("run/1", f"run/{'9' * 20}"), f"run/{'9' * 20} starts like a version"),
    "version zero": (copy("run/1", "run/0"), "run/0 starts like a version"),
    "empty version": (lambda folder: (folder / "cut/2").mkdir(), "cut/2 is an empty version"),
    "missing version": (
        append("run/config.pbtxt", "version_policy { specific { versions: [1, 3] } }"),
        "run/config.pbtxt serves version 3",
    ),
    "decoupled": (DECOUPLED, "cut is decoupled"),
    "two ensembles": (copy_model("whole", "inner"), "inner, whole"),
    "called from code": (copy_model("run", "called"), "called is not part of the ensemble whole"),
    "pipe": (lambda folder: os.mkfifo(folder / "run/1/pipe"), "run/1/pipe is not a file"),
    "no text": (put("run/config.pbtxt", b"\xff\xfe"), "run/config.pbtxt is not UTF-8"),
    "blank in a folder": (lambda folder: (folder / "run/1/a b").mkdir(), "'run/1/a b': unsafe name"),
    "flat": (put("config.pbtxt", ""), "config.pbtxt at the top level"),
    "renamed": (move("run", "ran"), "ran/config.pbtxt: expected name 'ran', got 'run'"),
    "missing part": (move("run", "ran"), "needs run"),
    "no version": (lambda folder: (folder / "whole/1/README.txt").unlink(), "whole has no numeric version"),
    "stray": (lambda folder: (folder / "stray").mkdir(), "stray has no config.pbtxt"),
    "looks like an ensemble": (append("run/config.pbtxt", f"# {PLATFORM}"), "run looks like an ensemble"),
    "no ensemble": (remove("whole"), "2 model folders"),
    "shell name": (put("run/1/$(id)", ""), "'run/1/$(id)': unsafe name"),
    "link": (lambda folder: (folder / "run/1/link").symlink_to("model.onnx"), "run/1/link is a link"),
    "broken config": (put("run/config.pbtxt", "no_such_field: 1"), "run/config.pbtxt:1:1"),
}


@pytest.mark.parametrize(("damage", "violation"), INVALID.values(), ids=INVALID)
def test_invalid_repositories(repository, damage, violation):
    damage(repository)
    with pytest.raises(LayoutError, match=re.escape(violation)):
        check_layout(repository)


VALID: Mapping[str, tuple[Sequence[Damage], str]] = {
    "as written": ((), "whole"),
    "a single model": ((remove("whole"), remove("cut")), "run"),
    "without a name": ((replace("run/config.pbtxt", 'name: "run"\n', ""),), "whole"),
    "an engine per GPU": (
        (
            move("run/1/model.onnx", "run/1/graph.onnx"),
            append("run/config.pbtxt", 'cc_model_filenames { key: "8.6" value: "graph.onnx" }'),
        ),
        "whole",
    ),
}


@pytest.mark.parametrize(("changes", "entry"), VALID.values(), ids=VALID)
def test_valid_repositories(repository, changes, entry):
    for change in changes:
        change(repository)
    assert check_layout(repository) == entry


def test_a_written_repository_has_no_finding(repository, tmp_path):
    build_environment([], file=environment_file(repository, "cut"), cache_dir=tmp_path / "cache")
    assert findings(repository) == findings(pack(repository, tmp_path / "model.tar.gz").file) == []


def test_answers_in_parts_are_for_generate(repository):
    DECOUPLED(repository)
    assert check_layout(repository, decoupled=True) == "whole"


def test_many_parts_are_not_an_error(repository):
    """Multi-model hosting warns from the sixth folder on, and serves them all the same."""
    steps = [SchedulingStep("cut", {"TEXT": "TEXT"}, {"ids": "ids"})]
    for number in range(7):
        copy_model("run", f"run-{number}")(repository)
        steps.append(SchedulingStep(f"run-{number}", {"ids": "ids"}, {"vector": f"vector-{number}"}))
    for name in ("run", "whole"):
        shutil.rmtree(repository / name)
    add_ensemble(repository, name="whole", inputs=[TEXT], outputs=[VECTOR], steps=steps, max_batch=4)
    assert check_layout(repository) == "whole"
