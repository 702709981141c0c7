"""What an endpoint's kind, instance type, and Triton release can serve, by the recipes of its models."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.environments import NAME
from tests.files.one_endpoint import coded, locked, names, violations, with_models
from tritonstack.base.errors import InvalidFilesError
from tritonstack.base.yaml import load_document
from tritonstack.facts.container_variables import INFERENCE_TYPE
from tritonstack.facts.releases import RELEASES, TritonRelease
from tritonstack.files.loading import load_workspace
from tritonstack.files.model.model import ModelSpec

TEXT = "source: file://w\ntest_inputs: [A text.]\nrecipe: {kind: text-embedding}\n"
ENGINE = TEXT.replace("embedding}", "embedding, format: tensorrt}")
RANDOM = "source: file://w\ntest_inputs: [{random: {}}]\nrecipe: "
ONNX = f"{RANDOM}{{kind: onnx}}\n"
CHAT = "source: file://w\nrecipe: {kind: vllm}\nbatching: {max_batch: 0}\ntest_inputs: [Once upon a time]\n"
STREAM = (
    "recipe: {kind: python, decoupled: true}\ntest_inputs: [{inputs: {x: [1.0]}, responses: [{y: [1.0]}]}]\n"
)
PYTHON = "recipe: {kind: python}\ntest_inputs: [{inputs: {x: [1.0]}, outputs: {y: [2.0]}}]\n"
PACKAGES = PYTHON.replace("python}", "python, requirements: requirements.txt}")
CALLER = PYTHON.replace("python}", "python, calls: [double]}")
TWICE = (
    "recipe: {kind: ensemble, steps: [{model: double, outputs: {y: z}}, {model: double, inputs: {x: z}}]}\n"
    "test_inputs: [{inputs: {x: [1.0]}, outputs: {y: [4.0]}}]\n"
)
WHOLE = (
    "recipe: {kind: ensemble, steps: [{model: m}, {model: m, inputs: {input__0: output__0}, "
    "outputs: {output__0: last}}]}\ntest_inputs: [{random: {}}]\n"
)
CPU, GPU, OLD_GPU = (f"instance_type: ml.{name}.xlarge" for name in ("c7i", "g5", "g4dn"))
SINGLE_CPU, SINGLE_GPU = f"kind: single, model: m, {CPU}", f"kind: single, model: m, {GPU}"
PIPELINE_CPU, PIPELINE_GPU, PIPELINE_OLD = (f"model: m, {machine}" for machine in (CPU, GPU, OLD_GPU))
ON_VLLM = f"{SINGLE_GPU}, image: with-vllm"
TRUSTING = "--backend-config=tensorrt,version-compatible=true"
MODEL = "endpoints.e.model"
VARIABLE = f"endpoints.e.environment.{INFERENCE_TYPE}"


def trees(options: str) -> str:
    return f"{RANDOM}{{kind: trees, {options}}}\nbatching: {{max_batch: 64}}\n"


def case(endpoint: str, model: str, told: str = "", release: str = "25.04") -> tuple[str, str, str, str]:
    """An endpoint, its model `m`, the field, code, and words of the error (none: accepted), and a release."""
    return endpoint, model, told, release


@pytest.mark.parametrize(
    ("endpoint", "model", "told", "release"),
    [
        # Precisions and engines, by hardware.
        case(SINGLE_CPU, f"{ONNX}precision: fp16\n", f"{MODEL} TS119 fp16 ml.c7i.xlarge ml.g5.xlarge GPUs"),
        case(SINGLE_GPU, f"{ONNX}precision: int8\n", f"{MODEL} TS119 int8 ml.g5.xlarge ml.c7i.xlarge CPUs"),
        case(SINGLE_GPU, f"{ONNX}precision: auto\n", f"{MODEL} TS119 precision: auto"),
        case(SINGLE_CPU, ONNX.replace("onnx", "onnx, format: tensorrt"), f"{MODEL} TS119 format: tensorrt"),
        case(f"{SINGLE_CPU}, image: with-vllm", CHAT, f"{MODEL} TS119 kind: vllm"),
        case(SINGLE_CPU, ONNX),
        case(SINGLE_GPU, ONNX),
        case(PIPELINE_OLD, f"{ENGINE}precision: bf16\n", "precision TS114 7.5 fp16"),
        case(
            PIPELINE_OLD,
            f"{ENGINE}tensorrt: {{portability: ampere-plus}}\n",
            "tensorrt.portability TS119 7.5 exact",
        ),
        case(PIPELINE_GPU, f"{ENGINE}tensorrt: {{portability: ampere-plus}}\n", release="24.09"),
        case(
            PIPELINE_GPU,
            f'{ENGINE}tensorrt: {{capabilities: ["8.9"]}}\n',
            "tensorrt.capabilities TS119 8.6",
            "24.09",
        ),
        # Engines, by the release's TensorRT.
        case(PIPELINE_GPU, f"{ENGINE}precision: bf16\n", "precision TS114 24.03 8.6.3 10.0 24.05", "24.03"),
        case(PIPELINE_GPU, f"{ENGINE}precision: bf16\n", release="24.05"),
        case(
            PIPELINE_GPU,
            f"{ENGINE}tensorrt: {{portability: same-capability}}\n",
            "tensorrt.portability TS114 10.9 25.04",
            "24.09",
        ),
        case(PIPELINE_GPU, f"{ENGINE}tensorrt: {{portability: same-capability}}\n"),
        case(
            PIPELINE_GPU,
            f"{ENGINE}tensorrt: {{profiles: [{{}}, {{}}]}}\n",
            "tensorrt.profiles TS114 10.0 24.05",
            "24.03",
        ),
        case(PIPELINE_GPU, f"{ENGINE}tensorrt: {{profiles: [{{}}, {{}}]}}\n", release="24.05"),
        case(
            PIPELINE_GPU,
            f"{ENGINE}tensorrt: {{version_compatible: true}}\n",
            f"{MODEL} TS209 {TRUSTING}",
            "24.09",
        ),
        case(
            f'{PIPELINE_GPU}, environment: {{SAGEMAKER_TRITON_ADDITIONAL_ARGS: "{TRUSTING}"}}',
            f"{ENGINE}tensorrt: {{version_compatible: true}}\n",
            release="24.09",
        ),
        # bf16 on CPUs is served by OpenVINO.
        case(PIPELINE_CPU, f"{TEXT}precision: bf16\n", release="24.09"),
        case(PIPELINE_GPU, f"{TEXT}precision: bf16\n", f"{MODEL} TS119 bf16 ml.g5.xlarge", "24.09"),
        case(PIPELINE_CPU, f"{TEXT}precision: bf16\n", f"{MODEL} TS209 OpenVINO 24.01 24.03", "24.01"),
        # Trees, by the checkpoints that FIL reads.
        *(
            item
            for options in ("file: fraud.json", "file: fraud.ubj, library: xgboost", "file: a.tl")
            for item in (
                case(SINGLE_CPU, trees(options), f"{MODEL} TS209 24.01 24.03 lightgbm", "24.01"),
                case(SINGLE_CPU, trees(options), release="24.03"),
            )
        ),
        case(SINGLE_CPU, trees("file: fraud.txt"), release="24.01"),
        case(SINGLE_CPU, trees("file: fraud.model, library: lightgbm"), release="24.01"),
        # Models that stream their responses.
        case(ON_VLLM, CHAT),
        case(SINGLE_GPU, CHAT, f"{MODEL} TS209 containers/ tritonserver:26.05-vllm-python-py3", "26.05"),
        case(ON_VLLM, CHAT, f"{MODEL} TS209 24.09 25.04", "24.09"),
        case(
            f"{ON_VLLM}, environment: {{{INFERENCE_TYPE}: infer}}",
            CHAT,
            f"{VARIABLE} TS209 'infer' 'generate' 'generate_stream'",
        ),
        case(
            f"kind: multi-model, models: [encoder, m], {GPU}, image: with-vllm",
            CHAT,
            "endpoints.e.models.1 TS209 vLLM single",
        ),
        case(SINGLE_CPU, STREAM),
        case(f"{SINGLE_CPU}, environment: {{{INFERENCE_TYPE}: generate_stream}}", STREAM),
        case(SINGLE_CPU, STREAM, f"{MODEL} TS209 24.09 25.04", "24.09"),
        case(
            f"{SINGLE_CPU}, environment: {{{INFERENCE_TYPE}: generate}}",
            STREAM,
            f"{VARIABLE} TS209 'generate' 'generate_stream'",
        ),
        case(f"{SINGLE_CPU}, asynchronous: {{}}", STREAM, "endpoints.e.asynchronous TS209"),
        case(f"kind: multi-model, models: [encoder, m], {CPU}", STREAM, "endpoints.e.models.1 TS209 single"),
        case(
            f"kind: ensemble, {CPU}, challenger: {{model: m, share: 0.1}}",
            STREAM,
            "endpoints.e.challenger.model TS209 kind: single",
        ),
        # Packages of a Python model.
        case(SINGLE_CPU, PACKAGES),
        case(
            SINGLE_CPU, PYTHON.replace("python}", 'python, pythons: ["3.12"]}'), "recipe TS111 requirements"
        ),
        # Layouts: what the endpoint or the model can change.
        case("kind: single, model: m", CALLER, f"{MODEL} TS209 ensemble recipe.calls model.yaml"),
        case("kind: single, model: twice", PYTHON, f"{MODEL} TS209 ensemble"),
        case("kind: ensemble, model: m", PYTHON, f"{MODEL} TS209 single"),
        case("kind: single, model: m", TEXT, f"{MODEL} TS209 ensemble recipe.input model.yaml"),
    ],
)
def test_a_model_fits_its_endpoint(
    tmp_path: Path, endpoint: str, model: str, told: str, release: str
) -> None:
    models = {"m": model, "double": PYTHON, "twice": TWICE}
    errors = violations(with_models(tmp_path, endpoint, models, triton_release=release))
    field, code, words = [*told.split(" ", 2), ""][:3] if told else ("", "", "")
    assert [coded(error) for error in errors] == [(field, code)] * bool(told), errors
    assert all(names(error, words) for error in errors), errors


@pytest.mark.parametrize(
    ("model", "endpoint", "release", "code"),
    [(f"{ONNX}precision: fp16\n", CPU, "25.04", "TS119"), (trees("file: a.json"), CPU, "24.01", "TS209")],
)
def test_the_members_of_a_pipeline_count(
    tmp_path: Path, model: str, endpoint: str, release: str, code: str
) -> None:
    served = f"kind: ensemble, model: whole, {endpoint}"
    project = with_models(tmp_path, served, {"m": model, "whole": WHOLE}, triton_release=release)
    assert [(error.code, names(error, "'m'")) for error in violations(project)] == [(code, True)]


def test_a_choice_of_bf16_is_rejected_on_older_releases(tmp_path: Path) -> None:
    built = {"cpu-py310": {"choices": {"encoder": "bf16"}}}
    assert locked(tmp_path / "new", "", built, triton_release="24.09").models
    with pytest.raises(InvalidFilesError) as caught:
        locked(tmp_path / "old", "", built, triton_release="24.01")
    assert [coded(error) for error in caught.value.violations] == [(MODEL, "TS209")]


@pytest.mark.parametrize("release", RELEASES.values(), ids=lambda release: release.name)
def test_packages_are_for_the_releases_python(tmp_path: Path, release: TritonRelease) -> None:
    other = "3.12" if release.python == "3.10" else "3.10"
    for pythons, told in ((f'["{other}"]', True), (f'["{other}", "{release.python}"]', False)):
        model = PACKAGES.replace(".txt}", f".txt, pythons: {pythons}}}")
        project = with_models(tmp_path / str(told), SINGLE_CPU, {"m": model}, triton_release=release.name)
        errors = violations(project)
        assert [coded(error) for error in errors] == [("recipe.pythons", "TS318")] * told
        assert all(names(error, f"{other} {release.name} {release.python} {NAME}") for error in errors)


def test_the_embedded_cloud_serves_with_the_python_of_this_machine(tmp_path: Path) -> None:
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    models = {"m": PACKAGES.replace(".txt}", '.txt, pythons: ["3.10"]}')}
    project = with_models(tmp_path, SINGLE_CPU, models, account="000000000000")
    (error,) = violations(project)
    assert (coded(error), names(error, here)) == (("recipe.pythons", "TS318"), True)
    file = project.model_file("m")
    file.write_text(file.read_text().replace("3.10", here))
    spec = load_workspace(project, NAME).spec
    assert spec.python == here
    instance = spec.endpoints["e"].variants[0].instance
    assert spec.acceptable_targets(instance) == (f"cpu-py{here.replace('.', '')}", "cpu")


BFLOAT = "name: m\ndescription: D.\nsource: file://w\nrecipe: {kind: onnx}\ntest_inputs: [{random: {}}]\n"


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ("triton: {config: config.pbtxt}", "triton.config"),
        ("triton: {optimization: {graph_level: 1}}", "triton.optimization"),
        ('triton: {parameters: {intra_op_thread_count: "1"}}', "triton.parameters.intra_op_thread_count"),
        ("triton: {sequences: {start: s}}", "triton.sequences"),
        ("batching: {queue_delay_us: 50}", "batching.queue_delay_us"),
        ("batching: {preferred_sizes: [4]}", "batching.preferred_sizes"),
        ("triton: {parameters: {PERFORMANCE_HINT: THROUGHPUT}}", ""),
    ],
)
def test_settings_that_openvino_does_not_have(tmp_path: Path, settings: str, field: str) -> None:
    (tmp_path / "config.pbtxt").touch()
    file = tmp_path / "model.yaml"
    if field:
        file.write_text(f"{BFLOAT}{settings}\n")
        load_document(file, ModelSpec)
    file.write_text(f"{BFLOAT}precision: bf16\n{settings}\n")
    if not field:
        load_document(file, ModelSpec)
        return
    with pytest.raises(InvalidFilesError) as caught:
        load_document(file, ModelSpec)
    assert [(*coded(error), error.line) for error in caught.value.violations] == [(field, "TS114", 7)]


def test_every_release_lists_supported_formats() -> None:
    for release in RELEASES.values():
        assert release.onnx.opset >= 19
        assert len(release.tensorrt_version) == 3


@pytest.mark.parametrize(
    ("kind", "inference_type"), [("generates", "generate"), ("streams", "generate_stream")]
)
def test_the_container_calls_a_model_by_its_kind(kind: str, inference_type: str) -> None:
    from tritonstack.constructs.endpoint.triton_model import container_environment  # loads the CDK
    from tritonstack.constructs.model_data import ModelArchive

    archive = ModelArchive("s3://models/m/7/model.tar.gz", entry_model="m", **{kind: True})
    assert container_environment(archive, {})[INFERENCE_TYPE] == inference_type
    assert container_environment(archive, {INFERENCE_TYPE: "infer"})[INFERENCE_TYPE] == "infer"
