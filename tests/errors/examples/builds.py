"""Examples of TS3xx: model builds."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.errors.examples.base import DEV, MODEL, Setting, example
from tritonstack.base.errors import InvalidFilesError
from tritonstack.base.yaml import load_document
from tritonstack.records.manifests import TensorSpec
from tritonstack.spec.models.model import ModelSpec
from tritonstack.spec.models.recipes import OnnxRecipe

GIVEN = """\
backend: "onnxruntime"
max_batch_size: 8
input { name: "x" data_type: TYPE_FP32 dims: 4 }
output { name: "y" data_type: TYPE_FP32 dims: 2 }
"""
"""A configuration of a model called scores."""


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


@example("TS367")
def no_scikit_model(shop: Setting) -> None:
    """A file of the recipe scikit-learn that is not a pickle."""
    from model_build.exporters.tables.scikit_learn import load_scikit_model

    load_scikit_model(shop.write("churn.joblib", "no pickle"))


@example("TS368")
def graph_without_tokens(shop: Setting) -> None:
    """A graph with `input: text` that takes a tensor `x`."""
    from model_build.layouts.prepared import preparation_for

    text = (
        "name: m\ndescription: M.\nsource: file://weights\nrecipe: {kind: onnx, input: text}\n"
        "test_inputs: [a text]\n"
    )
    model = load_document(shop.write("model.yaml", text), ModelSpec)
    assert isinstance(model.record.recipe, OnnxRecipe)
    preparation = preparation_for(model, model.record.recipe)
    assert preparation is not None
    preparation.fit([TensorSpec(name="x", datatype="FP32", shape=(3,))])


@example("TS380")
def unexplained_trees(shop: Setting) -> None:
    """`shap: true` for a forest of scikit-learn."""
    from model_build.recipes import recipe_for

    text = (
        "name: m\ndescription: M.\nsource: file://weights\nrecipe: {kind: trees, file: m.pkl, shap: true}\n"
        "trust: {pickle: we made it}\nbatching: {max_batch: 8}\ntest_inputs: [{random: {rows: 2}}]\n"
    )
    recipe_for(load_document(shop.write("model.yaml", text), ModelSpec))


@example("TS369")
def no_pieces(shop: Setting) -> None:
    """A SentencePiece vocabulary that is another file."""
    from model_build.exporters.tokenizing.pieces import match_pieces

    match_pieces(None, shop.write("spiece.model", "no pieces"))


@example("TS370")
def other_image_model(shop: Setting) -> None:
    """`image-embedding` with a vision transformer."""
    from types import SimpleNamespace

    from model_build.exporters.heads.image_embedding import ImageEmbedding

    ImageEmbedding.auto_class(SimpleNamespace(model_type="vit"))


@example("TS376")
def two_variable_sizes(shop: Setting) -> None:
    """Test inputs of a decoupled model with images of several heights and widths."""
    from model_build.data.cases import Case
    from model_build.inputs.rows import Row
    from model_build.recipes.python import PythonModel
    from tritonstack.spec.models.recipes import PythonRecipe

    text = (
        "name: m\ndescription: M.\nrecipe: {kind: python, decoupled: true}\ntest_inputs:\n"
        "  - inputs: {IMAGE: [[1.0, 2.0], [3.0, 4.0]]}\n    responses: [{SCORE: [0.5]}]\n"
    )
    shop.write("model.py", "class TritonPythonModel:\n    def execute(self, requests): ...\n")
    model = load_document(shop.write("model.yaml", text), ModelSpec)
    assert isinstance(model.record.recipe, PythonRecipe)
    image = {"IMAGE": np.ones((1, 2, 2), np.float32)}
    row, case = Row("test input 1", ("test_inputs", 0), image), Case("test input 1", image, {})
    tensor = TensorSpec(name="IMAGE", datatype="FP32", shape=(-1, -1))
    PythonModel(model, model.record.recipe)._require_sendable([row], [case], [tensor])


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
    from tritonstack.base.yaml import load_document
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
    from tritonstack.base.yaml import load_document
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
    from tritonstack.base.yaml import load_document
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
    from tritonstack.base.errors import InvalidFilesError
    from tritonstack.base.yaml import load_document
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
    from tritonstack.base.yaml import load_document
    from tritonstack.records.manifests import TensorSpec
    from tritonstack.spec.models.model import ModelSpec

    shop.write(MODEL, PYTHON_MODEL.replace("X: {datatype: FP32", "X: {datatype: INT64"))
    x, y = (TensorSpec(name=name, datatype="FP32", shape=(2,)) for name in "XY")
    narrow_tensors(load_document(shop.root / MODEL, ModelSpec), [x], [y])


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


@example("TS327")
def no_model_file(shop: Setting) -> None:
    """`tritonstack doctor` of a repository whose ONNX model has another file name."""
    found(shop, {"scores/config.pbtxt": GIVEN, "scores/1/scores.onnx": ""})


@example("TS328")
def rejected_configuration(shop: Setting) -> None:
    """`tritonstack doctor` of a model that prefers batches above its maximum."""
    batching = "dynamic_batching { preferred_batch_size: [ 16 ] }"
    found(shop, {"scores/config.pbtxt": f"{GIVEN}{batching}", "scores/1/model.onnx": ""})


@example("TS329")
def rejected_ensemble(shop: Setting) -> None:
    """`tritonstack doctor` of an ensemble without one of its parts."""
    step = 'ensemble_scheduling { step { model_name: "scores" } }'
    found(shop, {"all/config.pbtxt": f'platform: "ensemble"\n{step}', "all/1/README.txt": ""})


@example("TS330")
def no_python_class(shop: Setting) -> None:
    """`tritonstack doctor` of a Python model without the class that Triton needs."""
    found(shop, {"cut/config.pbtxt": 'backend: "python"', "cut/1/model.py": "class Model:\n    pass\n"})


@example("TS331")
def no_invocations(shop: Setting) -> None:
    """`tritonstack doctor` of a decoupled model."""
    policy = "model_transaction_policy { decoupled: true }"
    found(shop, {"scores/config.pbtxt": f"{GIVEN}{policy}", "scores/1/model.onnx": ""})


@example("TS332")
def two_loads(shop: Setting) -> None:
    """`tritonstack doctor` of an ONNX model that leaves the number of instances to Triton."""
    found(shop, {"scores/config.pbtxt": GIVEN, "scores/1/model.onnx": ""})


@example("TS333")
def trace_of_a_mac(shop: Setting) -> None:
    """`tritonstack doctor` of a repository that was packed on a Mac."""
    found(shop, {"scores/config.pbtxt": GIVEN, "scores/1/model.onnx": "", "__MACOSX/._scores": ""})


def _calling(shop: Setting, name: str, *, calls: str, called: str) -> None:
    """Write a Python model that calls another one."""
    shop.write(
        f"models/{name}/model.yaml",
        f"name: {name}\ndescription: Python code.\nrecipe: {{kind: python, calls: [{calls}]}}\n"
        "test_inputs: [{inputs: {X: [1.0]}, outputs: {Y: [1.0]}}]\n",
    )
    shop.write(f"models/{name}/model.py", f'call = pb_utils.InferenceRequest(model_name="{called}")\n')
    shop.edit(DEV, "model: minilm", f"model: {name}")


@example("TS355")
def undeclared_call(shop: Setting) -> None:
    """`calls: [minilm]`, and code that calls `minlm`."""
    _calling(shop, "judge", calls="minilm", called="minlm")
    shop.validate()


@example("TS356")
def call_of_a_caller(shop: Setting) -> None:
    """A model that calls a model that calls another one."""
    _calling(shop, "judge", calls="minilm", called="minilm")
    shop.edit(DEV, "model: judge", "model: minilm")
    _calling(shop, "jury", calls="judge", called="judge")
    shop.validate()


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


STEP = """\
name: "{name}"
input {{ name: "item" data_type: TYPE_{taken} dims: -1 dims: 1 }}
output {{ name: "{made}" data_type: TYPE_INT64 dims: -1 dims: 1 }}
backend: "python"
"""
PROGRAM = "class TritonPythonModel:\n    def execute(self, requests): ...\n"


def steps(taken: str, program: str = PROGRAM) -> dict[str, str | bytes]:
    """Return the files of an export with two workflows."""
    names = ("0_transformworkflowtriton", "1_transformworkflowtriton")
    first = STEP.format(name=names[0], taken="INT64", made="item")
    second = STEP.format(name=names[1], taken=taken, made="score")
    return {
        f"{names[0]}/config.pbtxt": first,
        f"{names[0]}/1/model.py": program,
        f"{names[1]}/config.pbtxt": second,
        f"{names[1]}/1/model.py": PROGRAM,
    }


@example("TS341")
def casting_executor(shop: Setting) -> None:
    """`tritonstack import` of a Merlin export whose steps have different types."""
    take(shop, steps("INT32"))


@example("TS342")
def unsupported_flavor(shop: Setting) -> None:
    """`tritonstack import` of an MLflow model that PyTorch saved."""
    take(shop, {"MLmodel": "flavors:\n  pytorch: {model_data: data}\n"})


@example("TS344")
def another_layout(shop: Setting) -> None:
    """`layout: ensemble` for a repository with one model."""
    from model_build.progress import BuildSteps, ignore_progress
    from model_build.recipes import recipe_for
    from tests.model_build.written_repositories import context_of
    from tritonstack.base.yaml import load_document
    from tritonstack.spec.models.model import ModelSpec

    shop.write(
        MODEL,
        "name: scores\ndescription: Scores.\nsource: file://given\n"
        "recipe: {kind: triton, layout: ensemble}\ntest_inputs: [{random: {}}]\n",
    )
    shop.write("models/minilm/given/scores/config.pbtxt", GIVEN)
    shop.write("models/minilm/given/scores/1/model.onnx", "")
    model = load_document(Path(MODEL), ModelSpec)
    context = context_of(model, shop.root / "work")
    recipe_for(model).write_repository(context, BuildSteps(ignore_progress))


@example("TS345")
def missing_libraries(shop: Setting) -> None:
    """`tritonstack import` of a Merlin export whose workflow needs NVTabular."""
    take(shop, steps("INT64", f"import nvtabular\n{PROGRAM}"))


@example("TS343")
def another_type(shop: Setting) -> None:
    """`tritonstack doctor` of an XGBoost model with three features in `config.pbtxt`."""
    forest = (
        'backend: "fil"\nmax_batch_size: 8\n'
        'input { name: "input__0" data_type: TYPE_FP32 dims: 3 }\n'
        'output { name: "output__0" data_type: TYPE_FP32 dims: 1 }\n'
        'parameters { key: "model_type" value: { string_value: "xgboost_json" } }\n'
    )
    trees = '{"learner": {"learner_model_param": {"num_feature": "5"}}}'
    found(shop, {"scores/config.pbtxt": forest, "scores/1/xgboost.json": trees})


@example("TS350")
def repeated_words(shop: Setting) -> None:
    """`text-to-text` with `num_beams` in generation_config.json."""
    from types import SimpleNamespace

    from model_build.exporters.generating.settings import require_plain_settings

    require_plain_settings(SimpleNamespace(num_beams=4))


@example("TS351")
def too_few_positions(shop: Setting) -> None:
    """`text-generation` with `max_length: 4096` for a GPT-2."""
    from model_build.exporters.generating.settings import longest

    longest(4096, positions=1024)


@example("TS357")
def gpu_model(shop: Setting) -> None:
    """`tritonstack dev` with a model of `precision: fp16`."""
    from tritonstack.workflows.local.dev import require_processor

    shop.model("precision: fp16")
    require_processor(shop.project, "minilm")


@example("TS358")
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
