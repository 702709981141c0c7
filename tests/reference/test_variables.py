"""Environment variables, compared with the script that reads them."""

import pytest

from tritonstack.reference.container_variables import (
    ADDITIONAL_ARGS,
    INFERENCE_TYPE,
    PING_MODE,
    READ_BY_SERVE,
    RESERVED,
    SHARED_MEMORY,
    SINCE,
    ContainerOptions,
    container_variables,
    variable_violations,
)
from tritonstack.runtime import serve


def test_catalog_lists_every_variable_of_serve():
    flags = {flag.variable for flag in serve.FLAGS}
    others = {
        serve.MULTI_MODEL,
        serve.DEFAULT_MODEL_NAME,
        serve.INFERENCE_TYPE,
        serve.PING_MODE,
        serve.OVERRIDE_PING_MODE,
        serve.MODEL_LOAD_GPU_LIMIT,
        serve.ADDITIONAL_ARGS,
    }
    assert set(READ_BY_SERVE) | set(RESERVED) == flags | others


def test_catalog_records_the_first_release_of_a_variable():
    first = ".".join(f"{number:02}" for number in serve.INFERENCE_TYPE_SINCE)
    # SageMaker has no image between that release and this one.
    assert SINCE[INFERENCE_TYPE] == "25.04" > first


def test_container_variables():
    assert container_variables({}, ContainerOptions("minilm")) == {
        "SAGEMAKER_TRITON_DEFAULT_MODEL_NAME": "minilm",
        "SAGEMAKER_TRITON_ADDITIONAL_ARGS": "--disable-auto-complete-config",
        "SAGEMAKER_TRITON_LOG_VERBOSE": "false",
        "SAGEMAKER_TRITON_SHM_DEFAULT_BYTE_SIZE": "1048576",
        "SAGEMAKER_TRITON_PING_MODE": "ready",
    }
    assert container_variables({"OWN": "x"}, ContainerOptions()) == {
        "SAGEMAKER_TRITON_ADDITIONAL_ARGS": "--disable-auto-complete-config",
        "SAGEMAKER_TRITON_LOG_VERBOSE": "false",
        "SAGEMAKER_TRITON_SHM_DEFAULT_BYTE_SIZE": "1048576",
        "SAGEMAKER_TRITON_PING_MODE": "live",
        "OWN": "x",
    }


@pytest.mark.parametrize("given", ["--pinned-memory-pool-byte-size=0", "--disable-auto-complete-config"])
def test_given_arguments_are_kept_without_duplicates(given):
    arguments = container_variables({ADDITIONAL_ARGS: given}, ContainerOptions("m"))[ADDITIONAL_ARGS].split()
    assert arguments == list(dict.fromkeys(["--disable-auto-complete-config", given]))


def test_models_with_a_response_cache_get_a_cache():
    def arguments(given: str) -> list[str]:
        return container_variables({ADDITIONAL_ARGS: given}, ContainerOptions(keeps_answers=True))[
            ADDITIONAL_ARGS
        ].split()

    own = "--cache-config=local,size=268435456"
    assert arguments("") == ["--disable-auto-complete-config", "--cache-config=local,size=67108864"]
    assert arguments(own) == ["--disable-auto-complete-config", own]
    assert arguments("--cache-config local,size=1") == [
        "--disable-auto-complete-config",
        "--cache-config",
        "local,size=1",
    ]


def test_language_models_use_the_generate_endpoint():
    served = ContainerOptions("chat", generates=True)
    assert container_variables({}, served)[INFERENCE_TYPE] == "generate"
    streamed = container_variables({INFERENCE_TYPE: "generate_stream"}, served)
    assert streamed[INFERENCE_TYPE] == "generate_stream"
    assert INFERENCE_TYPE not in container_variables({}, ContainerOptions("m"))


def test_other_decoupled_models_stream():
    served = ContainerOptions("count", streams=True)
    assert container_variables({}, served)[INFERENCE_TYPE] == "generate_stream"


def test_file_can_increase_shared_memory():
    assert container_variables({SHARED_MEMORY: "5"}, ContainerOptions("m"))[SHARED_MEMORY] == "5"


def test_a_file_can_raise_tritons_log_level():
    given = {"SAGEMAKER_TRITON_LOG_VERBOSE": "1"}
    assert list(variable_violations(given, model="m")) == []
    assert container_variables(given, ContainerOptions("m"))["SAGEMAKER_TRITON_LOG_VERBOSE"] == "1"


@pytest.mark.parametrize("mode", ["live", "ready"])
def test_ping_mode_of_the_file_is_passed_to_triton(mode, tmp_path_factory):
    root = tmp_path_factory.mktemp("model")
    (root / "m").mkdir()
    variables = container_variables({"SAGEMAKER_TRITON_OVERRIDE_PING_MODE": mode}, ContainerOptions("m"))
    assert serve.serve_command(environment=variables, model_root=root).environment[PING_MODE] == mode


def test_every_accepted_value_produces_a_command_line(tmp_path_factory):
    root = tmp_path_factory.mktemp("model")
    (root / "m").mkdir()
    words = {"true", "0.5", "16", "live", "infer", "--log-info=true"}
    for name in READ_BY_SERVE:
        for value in words:
            if not list(variable_violations({name: value}, model="m")):
                serve.serve_command(
                    environment=container_variables({name: value}, ContainerOptions("m")),
                    model_root=root,
                    gpu_count=1,
                )
    assert list(variable_violations({ADDITIONAL_ARGS: "true"}, model="m"))


@pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "RAYON_NUM_THREADS"])
@pytest.mark.parametrize("value", ["0", "4,2", "all", "-1"])
def test_threads_are_a_number(name, value):
    """Served models read these variables as one number; OpenMP itself also takes a list."""
    (violation,) = variable_violations({name: value}, model="m")
    assert (violation.path, violation.code) == ((name,), "TS114")
    assert list(variable_violations({name: "4"}, model="m")) == []
