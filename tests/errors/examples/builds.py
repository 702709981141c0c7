"""Examples of TS3xx: model builds."""

from __future__ import annotations

import numpy as np

from tests.errors.examples.base import MODEL, Setting, example


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


@example("TS307")
def no_torchscript(shop: Setting) -> None:
    """A file `model.pt` that holds no TorchScript."""
    from model_build.exporters.torchscript_safety import check_torchscript

    check_torchscript(shop.write("model.pt", "no module"))


@example("TS308")
def no_trees(shop: Setting) -> None:
    """A file of trees of no known library."""
    from model_build.exporters.tree_libraries import library_of

    library_of(shop.write("model.txt", "no trees"))


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
    from tritonstack.base.documents import load_document
    from tritonstack.records.manifests import TensorSpec
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
    from tests.errors.examples.project import PYTHON_MODEL
    from tritonstack.base.documents import load_document
    from tritonstack.records.manifests import TensorSpec
    from tritonstack.spec.models.model import ModelSpec

    shop.write(MODEL, PYTHON_MODEL.replace("[1.0, 2.0]}, outputs", "[1.0, 2.0, 3.0]}, outputs"))
    read_rows(
        load_document(shop.root / MODEL, ModelSpec), [TensorSpec(name="X", datatype="FP32", shape=(2,))]
    )


@example("TS316")
def no_config(shop: Setting) -> None:
    """`max_batch_sise` in the `config.pbtxt` of a model."""
    from model_build.repository.existing import read_existing
    from tritonstack.base.documents import load_document
    from tritonstack.spec.models.model import ModelSpec

    shop.model("triton: {config: config.pbtxt}")
    shop.write("models/minilm/config.pbtxt", "max_batch_sise: 8\n")
    read_existing(load_document(shop.root / MODEL, ModelSpec))


@example("TS318")
def no_environment(shop: Setting) -> None:
    """An `environment.tar.gz` that is not an archive of conda-pack."""
    from model_build.environments.given import accept_environment

    accept_environment(shop.write("environment.tar.gz", "no archive"), file=shop.root / "packed.tar.gz")


@example("TS319")
def no_layout(shop: Setting) -> None:
    """A Triton repository with a `config.pbtxt` at its top level."""
    from model_build.repository.layout import check_layout

    shop.write("repository/config.pbtxt", "")
    check_layout(shop.root / "repository")


@example("TS320")
def library_error(shop: Setting) -> None:
    """A library raises an exception that tritonstack does not know."""
    from model_build.library_errors import as_build_error

    raise as_build_error(RuntimeError("shape '[2, 3]' is invalid for input of size 5"))


@example("TS321")
def no_space(shop: Setting) -> None:
    """A disk without space for the model."""
    from model_build import resources

    shop.patch.setattr(resources, "free_space", lambda _: 1 << 30)
    resources.require_space(shop.root, 4 << 30, purpose="exporting 'minilm'")


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


@example("TS324")
def no_build_stack(shop: Setting) -> None:
    """The build stack was deployed before the environment got a GPU endpoint."""
    from tritonstack.operations.builds.infrastructure import BuildInfra

    ground = BuildInfra.__new__(BuildInfra)
    object.__setattr__(ground, "base", "tritonstack-dev")
    object.__setattr__(ground, "images", {})
    ground.image("sm86")


@example("TS317")
def other_config(shop: Setting) -> None:
    """A `config.pbtxt` with the name of another model."""
    from types import SimpleNamespace
    from typing import Any

    from model_build.repository.contradictions import _check_identity
    from model_build.repository.existing import read_existing
    from tritonstack.base.documents import load_document
    from tritonstack.base.errors import InvalidFilesError
    from tritonstack.spec.models.model import ModelSpec

    shop.model("triton: {config: config.pbtxt}")
    shop.write("models/minilm/config.pbtxt", 'name: "encoder"\n')
    existing = read_existing(load_document(shop.root / MODEL, ModelSpec))
    assert existing is not None
    wanted: Any = SimpleNamespace(name="minilm", backend="onnxruntime")
    raise InvalidFilesError(_check_identity(existing, wanted))


@example("TS315")
def other_type(shop: Setting) -> None:
    """`tensors: {X: {datatype: INT64}}` for a graph whose input `X` is FP32."""
    from model_build.inputs.narrowing import narrow_tensors
    from tests.errors.examples.project import PYTHON_MODEL
    from tritonstack.base.documents import load_document
    from tritonstack.records.manifests import TensorSpec
    from tritonstack.spec.models.model import ModelSpec

    shop.write(MODEL, PYTHON_MODEL.replace("X: {datatype: FP32", "X: {datatype: INT64"))
    x, y = (TensorSpec(name=name, datatype="FP32", shape=(2,)) for name in "XY")
    narrow_tensors(load_document(shop.root / MODEL, ModelSpec), [x], [y])
