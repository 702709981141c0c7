"""The command line and the rejections of NVIDIA's `serve`, for every variable."""

from pathlib import Path

import pytest

from tritonstack.runtime import ServeRejectedError, serve_command
from tritonstack.runtime.serve import FLAGS, MULTI_MODEL_REPOSITORY, generate_by_http

DEFAULTS = (
    "--model-namespacing=true",
    "--allow-grpc=false",
    "--allow-metrics=false",
    "--log-verbose=true",
    "--backend-config=python,shm-default-byte-size=16777216",
    "--backend-config=python,shm-growth-byte-size=1048576",
)
FIXED = ("tritonserver", "--allow-sagemaker=true", "--allow-http=false", "--model-control-mode=explicit")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "bert").mkdir()
    return tmp_path


def argv(root: Path, **environment: str) -> tuple[str, ...]:
    return serve_command(environment=environment, model_root=root).argv


def test_single_model_defaults(root):
    command = serve_command(environment={}, model_root=root, served_at=Path("/opt/ml/model"))
    assert command.argv == (*FIXED, "--model-repository=/opt/ml/model/", *DEFAULTS, "--load-model=bert")
    assert command.environment == {"SAGEMAKER_TRITON_DEFAULT_MODEL_NAME": "bert"}
    assert command.port == 8080
    assert command.folders_made == ()
    assert command.notices == (
        "WARNING: No SAGEMAKER_TRITON_DEFAULT_MODEL_NAME provided.",
        "         Starting with the only existing model directory bert",
    )


def test_multi_model_defaults(tmp_path):
    command = serve_command(environment={"SAGEMAKER_MULTI_MODEL": "true"}, model_root=tmp_path)
    assert command.argv == (*FIXED, "--model-repository=/tmp/sagemaker", *DEFAULTS)
    assert command.environment == {"SAGEMAKER_MULTI_MODEL": "true"}
    assert command.folders_made == (MULTI_MODEL_REPOSITORY,)
    assert command.notices == ('Triton is running in SageMaker MME mode. Using Triton ping mode: "live"',)


@pytest.mark.parametrize("value", ["false", "True", "1", ""])
def test_only_the_value_true_means_multi_model(root, value):
    assert not serve_command(environment={"SAGEMAKER_MULTI_MODEL": value}, model_root=root).multi_model


@pytest.mark.parametrize("flag", FLAGS, ids=lambda flag: flag.variable)
def test_every_variable_becomes_its_flag(root, flag):
    variable, text, default = flag
    unset = [argument for argument in argv(root) if argument.startswith(text)]
    assert unset == ([] if default is None else [f"{text}{default}"])
    assert [argument for argument in argv(root, **{variable: "7"}) if argument.startswith(text)] == [
        f"{text}7"
    ]
    assert argv(root, **{variable: ""}) == argv(root)


def test_flags_have_the_order_of_serve(root):
    everything = argv(root, **{flag.variable: "7" for flag in FLAGS})
    assert everything[5:-1] == tuple(f"{flag.flag}7" for flag in FLAGS)


def test_disable_namespacing_is_inverted(root):
    assert "--model-namespacing=true" in argv(root, SAGEMAKER_TRITON_DISABLE_MODEL_NAMESPACING="true")


def test_values_are_split_on_blanks(root):
    command = argv(
        root,
        SAGEMAKER_TRITON_THREAD_COUNT="4 --exit-timeout-secs=1",
        SAGEMAKER_TRITON_ADDITIONAL_ARGS=" --load-model=a\t--load-model=b\n",
    )
    assert command[8:10] == ("--sagemaker-thread-count=4", "--exit-timeout-secs=1")
    assert command[-3:] == ("--load-model=a", "--load-model=b", "--load-model=bert")


def test_gpu_memory_limit_is_per_gpu(root):
    limited = {"SAGEMAKER_TRITON_MODEL_LOAD_GPU_LIMIT": "0.5"}
    command = serve_command(environment=limited, model_root=root, gpu_count=2)
    assert command.argv[-5:-1] == ("--model-load-gpu-limit", "0:0.5", "--model-load-gpu-limit", "1:0.5")
    assert argv(root, **limited) == argv(root)


@pytest.mark.parametrize("multi_model", ["true", "false"])
def test_ping_mode_variable_is_not_passed_to_the_server(root, multi_model):
    environment = {"SAGEMAKER_MULTI_MODEL": multi_model, "SAGEMAKER_TRITON_OVERRIDE_PING_MODE": "live"}
    seen = serve_command(environment=environment, model_root=root).environment
    assert "SAGEMAKER_TRITON_PING_MODE" not in seen


@pytest.mark.parametrize(
    ("environment", "seen"),
    [
        ({}, "ready"),
        ({"SAGEMAKER_MULTI_MODEL": "true"}, "live"),
        ({"SAGEMAKER_TRITON_OVERRIDE_PING_MODE": "live"}, "live"),
        ({"SAGEMAKER_MULTI_MODEL": "true", "SAGEMAKER_TRITON_OVERRIDE_PING_MODE": "ready"}, "ready"),
    ],
)
def test_ping_mode_is_set_if_the_container_supports_it(root, environment, seen):
    environment = {**environment, "SAGEMAKER_TRITON_PING_MODE": "anything"}
    command = serve_command(environment=environment, model_root=root)
    assert command.environment["SAGEMAKER_TRITON_PING_MODE"] == seen


def test_port(root):
    assert serve_command(environment={"SAGEMAKER_BIND_TO_PORT": "9000"}, model_root=root).port == 9000
    with pytest.raises(ServeRejectedError, match="'http', which is not a port number"):
        argv(root, SAGEMAKER_BIND_TO_PORT="http")


def test_given_model_can_have_siblings(root):
    (root / "tokenizer").mkdir()
    command = serve_command(environment={"SAGEMAKER_TRITON_DEFAULT_MODEL_NAME": "bert"}, model_root=root)
    assert command.argv[-1] == "--load-model=bert"
    assert command.notices == ()


def error_of(root: Path, **environment: str) -> str:
    with pytest.raises(ServeRejectedError) as caught:
        argv(root, **environment)
    return caught.value.message


def test_flat_model_is_rejected(root):
    (root / "config.pbtxt").touch()
    assert error_of(root) == (
        "ERROR: Incorrect directory structure.\n       Model directory needs to contain the top level folder"
    )
    assert argv(root, SAGEMAKER_MULTI_MODEL="true")


def test_missing_default_model_is_rejected(root):
    assert error_of(root, SAGEMAKER_TRITON_DEFAULT_MODEL_NAME="gpt") == (
        "ERROR: Directory with provided SAGEMAKER_TRITON_DEFAULT_MODEL_NAME gpt does not exist"
    )


def test_empty_folder_is_rejected(tmp_path):
    (tmp_path / "README").touch()
    (tmp_path / "link").symlink_to("/")
    assert error_of(tmp_path) == "ERROR: No model found in model repository"
    assert error_of(tmp_path / "missing") == "ERROR: No model found in model repository"


def test_several_models_without_a_default_are_rejected(root):
    (root / ".git").mkdir()
    first, choice, found = error_of(root).splitlines()
    assert first == "ERROR: More than 1 model directory found in model repository."
    assert choice == (
        "       Either provide a single directory or set SAGEMAKER_TRITON_DEFAULT_MODEL_NAME "
        "to run the ensemble backend."
    )
    title, names = found.split(": ")
    assert (title.strip(), sorted(names.split())) == (
        "Directories found in model repository",
        [".git", "bert"],
    )


def test_name_with_a_space_counts_twice(tmp_path):
    (tmp_path / "my model").mkdir()
    assert "More than 1 model directory" in error_of(tmp_path)


@pytest.mark.parametrize("release", [None, "25.03", "26.01"])
def test_unknown_inference_type_is_rejected(root, release):
    environment = {"SAGEMAKER_TRITON_INFERENCE_TYPE": "chat"}
    with pytest.raises(ServeRejectedError) as caught:
        serve_command(environment=environment, model_root=root, release=release)
    assert caught.value.message == (
        "ERROR: Invalid SAGEMAKER_TRITON_INFERENCE_TYPE 'chat'\n"
        "       Must be one of: infer, generate, generate_stream"
    )


def test_older_releases_have_no_inference_types(root):
    environment = {"SAGEMAKER_TRITON_INFERENCE_TYPE": "chat"}
    assert serve_command(environment=environment, model_root=root, release="24.10")


def test_older_releases_generate_by_the_kserve_front_end(root):
    environment = {"SAGEMAKER_TRITON_INFERENCE_TYPE": "generate_stream"}
    command = serve_command(environment=environment, model_root=root, release="24.10")
    replaced, routes = generate_by_http(command, release="24.10")
    assert {"--allow-sagemaker=false", "--allow-http=true", "--http-port=8080"} <= set(replaced.argv)
    assert not {"--allow-sagemaker=true", "--allow-http=false"} & set(replaced.argv)
    assert routes == {"/ping": "/v2/health/ready", "/invocations": "/v2/models/bert/generate_stream"}
    assert generate_by_http(command, release="25.03") == (command, {})
    plain = serve_command(environment={}, model_root=root, release="24.10")
    assert generate_by_http(plain, release="24.10") == (plain, {})


def test_a_flat_model_is_rejected_before_anything_else(root):
    (root / "config.pbtxt").touch()
    assert "Incorrect directory structure" in error_of(root, SAGEMAKER_TRITON_INFERENCE_TYPE="chat")
