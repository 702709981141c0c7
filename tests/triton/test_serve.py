"""The command line and the rejections of NVIDIA's `serve`, for every variable."""

from pathlib import Path

import pytest

from tritonstack.triton import ServeRejectedError, serve_command
from tritonstack.triton.serve import FLAGS, MULTI_MODEL_REPOSITORY, generate_by_http

DEFAULTS = (
    "--model-namespacing=true",
    "--allow-grpc=false",
    "--allow-metrics=false",
    "--log-verbose=true",
    "--backend-config=python,shm-default-byte-size=16777216",
    "--backend-config=python,shm-growth-byte-size=1048576",
)
FIXED = ("tritonserver", "--allow-sagemaker=true", "--allow-http=false", "--model-control-mode=explicit")
MANY, TYPE = {"SAGEMAKER_MULTI_MODEL": "true"}, "SAGEMAKER_TRITON_INFERENCE_TYPE"
NAME, OVERRIDE = "SAGEMAKER_TRITON_DEFAULT_MODEL_NAME", "SAGEMAKER_TRITON_OVERRIDE_PING_MODE"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "bert").mkdir()
    return tmp_path


def argv(root: Path, **environment: str) -> tuple[str, ...]:
    return serve_command(environment=environment, model_root=root).argv


def test_single_model_defaults(root):
    command = serve_command(environment={}, model_root=root, served_at=Path("/opt/ml/model"))
    assert command.argv == (*FIXED, "--model-repository=/opt/ml/model/", *DEFAULTS, "--load-model=bert")
    assert (command.environment, command.port, command.folders_made) == ({NAME: "bert"}, 8080, ())
    assert len(command.notices) == 2


def test_multi_model_defaults(tmp_path):
    command = serve_command(environment=MANY, model_root=tmp_path)
    assert command.argv == (*FIXED, "--model-repository=/tmp/sagemaker", *DEFAULTS)
    assert (command.environment, command.folders_made) == (MANY, (MULTI_MODEL_REPOSITORY,))
    assert '"live"' in command.notices[0]


@pytest.mark.parametrize("value", ["false", "True", "1", ""])
def test_only_the_value_true_means_multi_model(root, value):
    assert not serve_command(environment={"SAGEMAKER_MULTI_MODEL": value}, model_root=root).multi_model


@pytest.mark.parametrize("flag", FLAGS, ids=lambda flag: flag.variable)
def test_every_variable_becomes_its_flag(root, flag):
    variable, text, default = flag
    unset = [argument for argument in argv(root) if argument.startswith(text)]
    assert unset == ([] if default is None else [f"{text}{default}"])
    assert [one for one in argv(root, **{variable: "7"}) if one.startswith(text)] == [f"{text}7"]
    assert argv(root, **{variable: ""}) == argv(root)


def test_flags_have_the_order_of_serve(root):
    everything = argv(root, **{flag.variable: "7" for flag in FLAGS})
    assert everything[5:-1] == tuple(f"{flag.flag}7" for flag in FLAGS)


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


@pytest.mark.parametrize(
    ("environment", "mode"),
    [({}, "ready"), (MANY, "live"), ({OVERRIDE: "live"}, "live"), ({**MANY, OVERRIDE: "ready"}, "ready")],
)
def test_ping_mode_is_set_only_if_the_container_has_it(root, environment, mode):
    variables = serve_command(environment=environment, model_root=root).environment
    assert "SAGEMAKER_TRITON_PING_MODE" not in variables
    environment = {**environment, "SAGEMAKER_TRITON_PING_MODE": "anything"}
    variables = serve_command(environment=environment, model_root=root).environment
    assert variables["SAGEMAKER_TRITON_PING_MODE"] == mode


def test_port_and_named_model(root):
    (root / "tokenizer").mkdir()
    command = serve_command(environment={NAME: "bert", "SAGEMAKER_BIND_TO_PORT": "9000"}, model_root=root)
    assert (command.port, command.argv[-1], command.notices) == (9000, "--load-model=bert", ())


@pytest.mark.parametrize(
    ("entries", "environment", "line"),
    [
        ("bert/ config.pbtxt", {}, "ERROR: Incorrect directory structure."),
        ("bert/ config.pbtxt", {TYPE: "chat"}, "ERROR: Incorrect directory structure."),
        ("bert/", {NAME: "gpt"}, f"ERROR: Directory with provided {NAME} gpt does not exist"),
        ("README", {}, "ERROR: No model found in model repository"),
        ("bert/ .git/", {}, "ERROR: More than 1 model directory found in model repository."),
        ("my\u00a0model/", {}, "ERROR: More than 1 model directory found in model repository."),
        ("bert/", {TYPE: "chat"}, f"ERROR: Invalid {TYPE} 'chat'"),
        ("bert/", {"SAGEMAKER_BIND_TO_PORT": "http"}, "ERROR: SAGEMAKER_BIND_TO_PORT is 'http'"),
    ],
)
def test_what_serve_rejects(tmp_path, entries, environment, line):
    for entry in entries.split(" "):
        name = entry.replace("\u00a0", " ")  # which counts twice
        (tmp_path / name).mkdir() if name.endswith("/") else (tmp_path / name).touch()
    (tmp_path / "link").symlink_to("/")
    with pytest.raises(ServeRejectedError) as caught:
        argv(tmp_path, **environment)
    assert caught.value.message.partition("\n")[0].partition(",")[0] == line


@pytest.mark.parametrize(("release", "rejected"), [("25.03", True), ("26.01", True), ("24.10", False)])
def test_older_releases_have_no_inference_types(root, release, rejected):
    try:
        serve_command(environment={TYPE: "chat"}, model_root=root, release=release)
    except ServeRejectedError:
        assert rejected
    else:
        assert not rejected


def test_older_releases_generate_by_the_kserve_front_end(root):
    command = serve_command(environment={TYPE: "generate_stream"}, model_root=root, release="24.10")
    replaced, routes = generate_by_http(command, release="24.10")
    assert {"--allow-sagemaker=false", "--allow-http=true", "--http-port=8080"} <= set(replaced.argv)
    assert not {"--allow-sagemaker=true", "--allow-http=false"} & set(replaced.argv)
    assert routes == {"/ping": "/v2/health/ready", "/invocations": "/v2/models/bert/generate_stream"}
    assert generate_by_http(command, release="25.03") == (command, {})
    plain = serve_command(environment={}, model_root=root, release="24.10")
    assert generate_by_http(plain, release="24.10") == (plain, {})
