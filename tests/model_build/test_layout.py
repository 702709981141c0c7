"""The repository that is written, and every way in which one is not fit for SageMaker's hosting modes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from catalog.manifests import ParityReport, TensorSpec
from catalog.targets import Target
from catalog.triton_options import Batching, TritonOptions
from model_build.errors import LayoutError
from model_build.graphs.records import SettledGraph
from model_build.repository.config import read_config
from model_build.repository.layout import check_layout
from model_build.repository.parts import EnsembleStep, add_ensemble, add_graph_model, add_python_model

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
    settled = SettledGraph(
        folder=exported,
        backend="onnxruntime",
        precision="fp32",
        inputs=(IDS,),
        outputs=(VECTOR,),
        parity=parity,
    )
    add_graph_model(
        folder, name="run", graph=settled, batching=BATCHING, triton=TritonOptions(), target=Target("cpu")
    )
    steps = [
        EnsembleStep("cut", {"TEXT": "TEXT"}, {"ids": "ids"}),
        EnsembleStep("run", {"ids": "ids"}, {"vector": "vector"}),
    ]
    add_ensemble(folder, name="whole", inputs=[TEXT], outputs=[VECTOR], steps=steps, max_batch=4)
    return folder


def test_written_repository_fits_both_modes(repository: Path) -> None:
    assert check_layout(repository) == "whole"


def test_configurations_say_what_was_asked(repository: Path) -> None:
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


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (flat, "config.pbtxt lies at the top"),
        (renamed, r"ran/config.pbtxt names the model 'run', not 'ran'[\s\S]*needs run, which is not there"),
        (no_version, "whole has no numeric version folder with a file in it"),
        (stray, r"stray has no config.pbtxt[\s\S]*stray is no part of the ensemble"),
        (second_ensemble, "more than one ensemble: run, whole"),
        (no_ensemble, "2 model folders and no ensemble"),
        (shell_name, r"run/1/\$\(id\)'.*safe"),
        (link, "run/1/link is a link"),
        (broken_config, "run/config.pbtxt: .*no_such_field"),
    ],
)
def test_unfit_repositories(repository: Path, damage: Callable[[Path], None], message: str) -> None:
    damage(repository)
    with pytest.raises(LayoutError, match=message):
        check_layout(repository)


def test_one_plain_model_is_fit(repository: Path) -> None:
    no_ensemble(repository)
    (repository / "cut").rename(repository.parent / "away")
    assert check_layout(repository) == "run"
