"""The generated repository, and layouts that SageMaker's hosting modes reject."""

import os
import re
import shutil
from pathlib import Path

import pytest

from model_build.data.graphs import ServableGraph
from model_build.errors import LayoutError
from model_build.repository.config import read_config
from model_build.repository.layout import check_layout
from model_build.repository.parts import SchedulingStep, add_ensemble, add_graph_model, add_python_model
from tritonstack.records.manifests import ParityReport, TensorSpec
from tritonstack.reference.targets import Target
from tritonstack.spec.models.triton_options import Batching, TritonOptions

TEXT = TensorSpec(name="TEXT", datatype="BYTES", shape=(1,))
IDS = TensorSpec(name="ids", datatype="INT64", shape=(-1,))
VECTOR = TensorSpec(name="vector", datatype="FP32", shape=(8,))
BATCHING = Batching(max_batch=4, queue_delay_us=100)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    code = tmp_path / "code.py"
    code.write_text("")
    add_python_model(folder, name="cut", code=code, inputs=[TEXT], outputs=[IDS], batching=BATCHING)
    exported = tmp_path / "exported"
    exported.mkdir()
    (exported / "model.onnx").write_bytes(b"graph")
    parity = ParityReport(stage="graph", cases=1, min_cosine=1.0, max_absolute_error=0.0)
    servable = ServableGraph(
        folder=exported,
        backend="onnxruntime",
        precision="fp32",
        inputs=(IDS,),
        outputs=(VECTOR,),
        parity=parity,
    )
    add_graph_model(
        folder, name="run", graph=servable, batching=BATCHING, triton=TritonOptions(), target=Target("cpu")
    )
    steps = [
        SchedulingStep("cut", {"TEXT": "TEXT"}, {"ids": "ids"}),
        SchedulingStep("run", {"ids": "ids"}, {"vector": "vector"}),
    ]
    add_ensemble(folder, name="whole", inputs=[TEXT], outputs=[VECTOR], steps=steps, max_batch=4)
    return folder


def test_written_repository_fits_both_modes(repository):
    assert check_layout(repository) == "whole"


def test_configurations_contain_the_requested_options(repository):
    ensemble = (repository / "whole" / "config.pbtxt").read_text()
    assert re.search(r'platform:\s*"ensemble"', ensemble)
    assert [
        step.model_name for step in read_config(repository / "whole/config.pbtxt").ensemble_scheduling.step
    ] == [
        "cut",
        "run",
    ]
    python = read_config(repository / "cut" / "config.pbtxt")
    assert (python.backend, python.max_batch_size) == ("python", 4)
    assert python.dynamic_batching.max_queue_delay_microseconds == 0, "requests wait once, for the graph"
    assert python.parameters["EXECUTION_ENV_PATH"].string_value == "$$TRITON_MODEL_DIRECTORY/env.tar.gz"
    onnx = read_config(repository / "run" / "config.pbtxt")
    assert onnx.backend == "onnxruntime"
    assert onnx.dynamic_batching.max_queue_delay_microseconds == 100
    assert [list(tensor.dims) for tensor in onnx.output] == [[8]]


def flat(folder: Path) -> None:
    (folder / "config.pbtxt").write_text("")


def renamed(folder: Path) -> None:
    (folder / "run").rename(folder / "ran")


def no_version(folder: Path) -> None:
    (folder / "whole/1/README.txt").unlink()


def stray(folder: Path) -> None:
    (folder / "stray").mkdir()


def second_ensemble(folder: Path) -> None:
    text = (folder / "run/config.pbtxt").read_text()
    (folder / "run/config.pbtxt").write_text(text + '# platform: "ensemble"\n')


def no_ensemble(folder: Path) -> None:
    for file in sorted((folder / "whole").rglob("*"), reverse=True):
        file.unlink() if file.is_file() else file.rmdir()
    (folder / "whole").rmdir()


def shell_name(folder: Path) -> None:
    (folder / "run/1/$(id)").write_text("")


def link(folder: Path) -> None:
    (folder / "run/1/link").symlink_to("model.onnx")


def broken_config(folder: Path) -> None:
    (folder / "run/config.pbtxt").write_text("no_such_field: 1")


def blank_before_the_colon(folder: Path) -> None:
    edit(folder / "whole/config.pbtxt", 'platform: "ensemble"', 'platform : "ensemble"')


def backend_ensemble(folder: Path) -> None:
    edit(folder / "whole/config.pbtxt", 'platform: "ensemble"', 'backend: "ensemble"')


def no_code(folder: Path) -> None:
    (folder / "cut/1/model.py").rename(folder / "cut/1/code.py")


def no_graph(folder: Path) -> None:
    (folder / "run/1/model.onnx").rename(folder / "run/1/graph.onnx")


def version_in_words(folder: Path) -> None:
    (folder / "run/1").rename(folder / "run/first")


def version_with_a_word(folder: Path) -> None:
    shutil.copytree(folder / "run/1", folder / "run/2-old")


def version_without_end(folder: Path) -> None:
    shutil.copytree(folder / "run/1", folder / "run/99999999999999999999")


def version_below_zero(folder: Path) -> None:
    shutil.copytree(folder / "run/1", folder / "run/-1")


def version_zero(folder: Path) -> None:
    shutil.copytree(folder / "run/1", folder / "run/0")


def empty_version(folder: Path) -> None:
    (folder / "cut/2").mkdir()


def version_with_zeros(folder: Path) -> None:
    (folder / "run/1").rename(folder / "run/01")


def missing_version(folder: Path) -> None:
    append(folder / "run/config.pbtxt", "version_policy { specific { versions: [1, 3] } }")


def decoupled(folder: Path) -> None:
    append(folder / "cut/config.pbtxt", "model_transaction_policy { decoupled: true }")


def nested(folder: Path) -> None:
    shutil.copytree(folder / "whole", folder / "inner")
    edit(folder / "inner/config.pbtxt", 'name: "whole"', 'name: "inner"')


def called_from_code(folder: Path) -> None:
    shutil.copytree(folder / "run", folder / "called")
    edit(folder / "called/config.pbtxt", 'name: "run"', 'name: "called"')


def pipe(folder: Path) -> None:
    os.mkfifo(folder / "run/1/pipe")


def no_text(folder: Path) -> None:
    (folder / "run/config.pbtxt").write_bytes(b"\xff\xfe")


def blank_in_a_folder(folder: Path) -> None:
    (folder / "run/1/a b").mkdir()


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def append(file: Path, text: str) -> None:
    file.write_text(file.read_text() + text + "\n")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (blank_before_the_colon, "multi-model hosting does not recognize the ensemble whole"),
        (backend_ensemble, 'whole/config.pbtxt has backend: "ensemble"'),
        (no_code, "cut/1 has no model.py"),
        (no_graph, "run/1 has no model.onnx"),
        (version_in_words, "run has no numeric version folder"),
        (version_with_zeros, "run/01 starts like a version"),
        (version_with_a_word, "run/2-old starts like a version"),
        (version_without_end, "run/99999999999999999999 starts like a version"),
        (version_below_zero, "run/-1 starts like a version"),
        (version_zero, "run/0 starts like a version"),
        (empty_version, "cut/2 is an empty version"),
        (missing_version, "run/config.pbtxt serves version 3, which is missing"),
        (decoupled, "cut is decoupled"),
        (nested, "at most one ensemble, got inner, whole"),
        (called_from_code, "called is not part of the ensemble whole, so neither hosting mode loads it"),
        (pipe, "run/1/pipe is not a file or folder"),
        (no_text, "run/config.pbtxt is not UTF-8 text"),
        (blank_in_a_folder, "'run/1/a b': unsafe name"),
        (flat, "config.pbtxt at the top level"),
        (renamed, r"ran/config\.pbtxt: expected name 'ran', got 'run'[\s\S]*needs run, which is missing"),
        (no_version, "whole has no numeric version folder with a file in it"),
        (stray, r"stray has no config\.pbtxt[\s\S]*stray is not part of the ensemble"),
        (second_ensemble, "run looks like an ensemble: its config.pbtxt contains the text"),
        (no_ensemble, "2 model folders without an ensemble"),
        (shell_name, r"run/1/\$\(id\)'.*safe"),
        (link, "run/1/link is a link"),
        (broken_config, "run/config.pbtxt:1:1 : .*no_such_field"),
    ],
)
def test_invalid_repositories(repository, damage, message):
    damage(repository)
    with pytest.raises(LayoutError, match=message):
        check_layout(repository)


def test_a_single_plain_model_is_accepted(repository):
    no_ensemble(repository)
    (repository / "cut").rename(repository.parent / "away")
    assert check_layout(repository) == "run"


def test_answers_in_parts_are_for_generate(repository):
    decoupled(repository)
    assert check_layout(repository, decoupled=True) == "whole"


def test_the_name_is_optional(repository):
    edit(repository / "run/config.pbtxt", 'name: "run"\n', "")
    assert check_layout(repository) == "whole"


def test_an_engine_for_each_gpu_needs_no_usual_file(repository):
    no_graph(repository)
    append(repository / "run/config.pbtxt", 'cc_model_filenames { key: "8.6" value: "graph.onnx" }')
    assert check_layout(repository) == "whole"


def test_many_parts_are_not_an_error(repository):
    """Multi-model hosting warns from the sixth folder on, and serves them all the same."""
    steps = [SchedulingStep("cut", {"TEXT": "TEXT"}, {"ids": "ids"})]
    for number in range(7):
        shutil.copytree(repository / "run", repository / f"run-{number}")
        edit(repository / f"run-{number}/config.pbtxt", 'name: "run"', f'name: "run-{number}"')
        steps.append(SchedulingStep(f"run-{number}", {"ids": "ids"}, {"vector": f"vector-{number}"}))
    shutil.rmtree(repository / "run")
    shutil.rmtree(repository / "whole")
    add_ensemble(repository, name="whole", inputs=[TEXT], outputs=[VECTOR], steps=steps, max_batch=4)
    assert check_layout(repository) == "whole"
