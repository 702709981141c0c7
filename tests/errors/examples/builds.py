"""Examples of TS3xx: model builds."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.errors.examples.base import MODEL, Setting, example
from tritonstack.base.errors import InvalidFilesError
from tritonstack.base.yaml import load_document
from tritonstack.records.manifests import TensorSpec
from tritonstack.spec.models.model import ModelSpec

GIVEN = """\
backend: "onnxruntime"
max_batch_size: 8
input { name: "x" data_type: TYPE_FP32 dims: 4 }
output { name: "y" data_type: TYPE_FP32 dims: 2 }
"""
"""A configuration of a model called scores."""


PYTHON_MODEL = """\
name: minilm
description: Python code.
recipe:
  kind: python
  code: model.py
  requirements: requirements.txt
  pythons: ["3.12"]
tensors:
  X: {datatype: FP32, shape: [2]}
  Y: {datatype: FP32, shape: [2]}
batching: {max_batch: 0}
test_inputs: [{inputs: {X: [1.0, 2.0]}, outputs: {Y: [1.0, 2.0]}}]
"""


@example("TS301")
def no_source(shop: Setting) -> None:
    """`source: file://weights` without that folder."""
    from model_build.sources import fetch_source

    fetch_source("file://parts", model_folder=shop.root / "models/minilm", cache_dir=shop.root / "cache")


@example("TS302")
def no_weights(shop: Setting) -> None:
    """A source folder without weights."""
    from model_build.sources import fetch_source

    shop.write("models/minilm/parts/config.json", "{}")
    fetch_source("file://parts", model_folder=shop.root / "models/minilm", cache_dir=shop.root / "cache")


@example("TS303")
def changed_source(shop: Setting) -> None:
    """A file was added to an installed package that a model comes from."""
    from model_build.sources.package import _check_files
    from tritonstack.project.files.source_selection import TRANSFORMERS

    shop.write("tiny/model.safetensors", "")
    _check_files(shop.root / "tiny", {}, TRANSFORMERS, source="package://tiny-models==1.0/tiny")


@example("TS304")
def contradiction(shop: Setting) -> None:
    """An entry of `allow_unused_weights` that matches no unused tensor."""
    from model_build.exporters.unused_weights import check_unused

    check_unused(None, ["pooler.dense.bias"], allowed={"pooler.weight": "the pooler is not used"})


@example("TS305")
def no_export(shop: Setting) -> None:
    """A text model whose `modules.json` is not JSON."""
    from model_build.exporters.sentence_settings import read_settings

    shop.write("weights/modules.json", "{")
    read_settings(shop.root / "weights")


@example("TS306")
def no_graph(shop: Setting) -> None:
    """A file `model.onnx` that holds no ONNX graph."""
    from model_build.recipes.given_graph import start_session

    start_session(shop.write("model.onnx", "no graph"))


@example("TS309")
def failing_code(shop: Setting) -> None:
    """The entry `model.py:load` imports a package that does not exist."""
    from model_build.exporters.entry_points import load_entry

    shop.write("model.py", "import no_such_package\n")
    load_entry(shop.root, "model.py:load")


@example("TS310")
def no_engine(shop: Setting) -> None:
    """A TensorRT profile for an input that the model does not have."""
    from model_build.engines.profiles import profile_shapes
    from tritonstack.spec.models.model import ModelSpec

    shop.edit(MODEL, "kind: text-embedding", "kind: text-embedding\n  format: tensorrt")
    shop.model("precision: fp16")
    shop.model("tensorrt: {profiles: [{shapes: {IMAGE: {min: [1, 1], opt: [1, 2], max: [1, 4]}}}]}")
    spec = load_document(shop.root / MODEL, ModelSpec).record
    profile_shapes(spec, [TensorSpec(name="TEXT", datatype="FP32", shape=(-1,))])


@example("TS311")
def no_tensorrt(shop: Setting) -> None:
    """A TensorRT engine is built on a machine without TensorRT."""
    from model_build.engines import machine

    shop.patch.setattr(machine, "TRTEXEC", shop.root / "trtexec")
    machine.require_trtexec()


@example("TS312")
def other_answers(shop: Setting) -> None:
    """An answer of the graph has another shape than the framework's."""
    from model_build.checking.parity import compare

    compare("case 0", "embedding", actual=np.zeros((1, 2)), expected=np.zeros((1, 3)))


@example("TS314")
def other_shape(shop: Setting) -> None:
    """A test input with three values for a model that takes two."""
    from model_build.inputs.rows import read_rows
    from tritonstack.spec.models.model import ModelSpec

    shop.write(MODEL, PYTHON_MODEL.replace("[1.0, 2.0]}, outputs", "[1.0, 2.0, 3.0]}, outputs"))
    read_rows(
        load_document(shop.root / MODEL, ModelSpec), [TensorSpec(name="X", datatype="FP32", shape=(2,))]
    )


@example("TS316")
def no_config(shop: Setting) -> None:
    """`max_batch_sise` in the `config.pbtxt` of a model."""
    from model_build.repository.existing import read_existing

    shop.model("triton: {config: config.pbtxt}")
    shop.write("models/minilm/config.pbtxt", "max_batch_sise: 8\n")
    read_existing(load_document(shop.root / MODEL, ModelSpec))


@example("TS318")
def no_environment(shop: Setting) -> None:
    """An `environment.tar.gz` that is not an archive of conda-pack."""
    from model_build.environments.given import accept_environment

    accept_environment(shop.write("environment.tar.gz", "no archive"), file=shop.root / "packed.tar.gz")


@example("TS319")
def failing_version(shop: Setting) -> None:
    """A model whose code raises an exception for its first test input."""
    from types import SimpleNamespace
    from typing import cast

    from tritonstack.records.examples import Example, Examples
    from tritonstack.runtime import TritonServer
    from tritonstack.workflows.local.dev import differences

    tensor = {"name": "x", "datatype": "FP32", "shape": (1,), "values": (1.0,)}
    right = {**tensor, "name": "y", "tolerance": {}}
    example = Example.model_validate(
        {"name": "test input 1", "origin": "given", "inputs": (tensor,), "outputs": (right,)}
    )
    reply = SimpleNamespace(status=500, body=b'{"error": "ValueError: x is not positive"}', headers={})
    server = cast("TritonServer", SimpleNamespace(request=lambda *_, **__: reply))
    list(differences(server, Examples(model="ranker", digest="0" * 64, requests=(example,))))


@example("TS322")
def two_failures(shop: Setting) -> None:
    """Two models of one command cannot be built."""
    from types import SimpleNamespace
    from typing import Any

    from tritonstack.workflows.builds.outcomes import Outcome, error_from, failure_of

    one: Any = SimpleNamespace(model="minilm", target="cpu")
    two: Any = SimpleNamespace(model="scores", target="cpu")
    event = {
        "code": "TS301",
        "message": "file://weights: folder not found: weights",
        "remedy": "correct `source`",
    }
    other = {"code": "TS306", "message": "scores.onnx is not an ONNX graph", "remedy": "export it again"}
    failed = failure_of(
        [
            Outcome(one, error=error_from(event, log="1.log")),
            Outcome(two, error=error_from(other, log="2.log")),
        ]
    )
    assert failed is not None
    raise failed


@example("TS323")
def no_job(shop: Setting) -> None:
    """A new account without a quota for builds of this kind."""
    from typing import Any

    from tests.errors.examples.stand_ins import Rejecting
    from tritonstack.operations.builds.codebuild import CodeBuildJobs

    message = "Cannot have more than 0 builds in queue for the account"
    cloud: Any = Rejecting("StartBuild", "AccountLimitExceededException", message)
    ground: Any = None
    CodeBuildJobs(cloud, ground, "tritonstack-dev-build-cpu")._begun({})


def found(shop: Setting, files: dict[str, str]) -> None:
    """Raise what `tritonstack doctor` finds in a repository."""
    from model_build.linting.check import lint_repository
    from model_build.linting.findings import LintOptions

    for name, text in files.items():
        shop.write(f"repository/{name}", text)
    lint = lint_repository(Path("repository"), LintOptions("26.05"))
    raise InvalidFilesError(lint.findings)


@example("TS326")
def no_version_folder(shop: Setting) -> None:
    """`tritonstack doctor` of a repository whose model has no version folder."""
    found(shop, {"scores/config.pbtxt": GIVEN, "scores/model.onnx": ""})


@example("TS332")
def two_loads(shop: Setting) -> None:
    """`tritonstack doctor` of an ONNX model that leaves the number of instances to Triton."""
    found(shop, {"scores/config.pbtxt": GIVEN, "scores/1/model.onnx": ""})


def take(shop: Setting, files: dict[str, str | bytes]) -> None:
    """Import a folder with these files; raise its warnings if that succeeds."""
    from tritonstack.workflows import Session
    from tritonstack.workflows.artifacts.importing import ImportOptions, import_model

    for name, text in files.items():
        shop.write(f"export/{name}", text)
    result = import_model(Session(shop.project), Path("export"), ImportOptions("ranker"))
    raise InvalidFilesError(result.findings)


@example("TS340")
def nothing_to_import(shop: Setting) -> None:
    """`tritonstack import` of a folder that has only weights."""
    take(shop, {"model.safetensors": "", "config.json": "{}"})
