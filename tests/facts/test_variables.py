"""Environment variables, compared with the script that reads them."""

import pytest

from tritonstack.facts.container_variables import (
    ADDITIONAL_ARGS,
    INFERENCE_TYPE,
    LONGEST_BYTES,
    MOST_VCPUS,
    PING_MODE,
    READ_BY_SERVE,
    RESERVED,
    SHARED_MEMORY,
    SINCE,
    WITHOUT_COMPLETION,
    ContainerOptions,
    container_variables,
    variable_violations,
)
from tritonstack.facts.threads import OPENMP, RAYON, Threads, graph_instances
from tritonstack.triton import serve

DEFAULT_MODEL, VERBOSE = serve.DEFAULT_MODEL_NAME, "SAGEMAKER_TRITON_LOG_VERBOSE"


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


OWN_POOL = "--backend-config=onnxruntime,enable-global-threadpool=0"
OTHER = "--backend-config=onnxruntime,default-max-batch-size=8"
CACHE = "--cache-config=local,size=67108864"
OWN_CACHE = "--cache-config=local,size=268435456"


def pool(threads: int) -> list[str]:
    options = ("enable-global-threadpool=1", f"intra_op_thread_count={threads}")
    return [f"--backend-config=onnxruntime,{option}" for option in options]


@pytest.mark.parametrize(
    ("given", "options", "added", "variables"),
    [
        ({}, ContainerOptions("m"), [], {DEFAULT_MODEL: "m", PING_MODE: "ready", OPENMP: None}),
        ({"OWN": "x"}, ContainerOptions(), [], {DEFAULT_MODEL: None, PING_MODE: "live", "OWN": "x"}),
        ({SHARED_MEMORY: "5", VERBOSE: "1"}, ContainerOptions("m"), [], {SHARED_MEMORY: "5", VERBOSE: "1"}),
        ({ADDITIONAL_ARGS: "--log-info=0"}, ContainerOptions("m"), ["--log-info=0"], {}),
        ({ADDITIONAL_ARGS: WITHOUT_COMPLETION}, ContainerOptions("m"), [], {}),
        # Only models with a response cache get one.
        ({}, ContainerOptions(keeps_answers=True), [CACHE], {}),
        ({ADDITIONAL_ARGS: OWN_CACHE}, ContainerOptions(keeps_answers=True), [OWN_CACHE], {}),
        (
            {ADDITIONAL_ARGS: "--cache-config local,size=1"},
            *(ContainerOptions(keeps_answers=True), ["--cache-config", "local,size=1"], {}),
        ),
        # Language models use the generate endpoint and manage their own threads; other decoupled ones stream.
        ({}, ContainerOptions("m"), [], {INFERENCE_TYPE: None}),
        (
            {},
            *(ContainerOptions("m", generates=True, threads=Threads(8)), []),
            {INFERENCE_TYPE: "generate", OPENMP: None},
        ),
        (
            {INFERENCE_TYPE: "generate_stream"},
            *(ContainerOptions("m", generates=True), [], {INFERENCE_TYPE: "generate_stream"}),
        ),
        ({}, ContainerOptions("m", streams=True), [], {INFERENCE_TYPE: "generate_stream"}),
        # Threads: instances x threads = vCPUs.
        *(
            (
                {},
                *(ContainerOptions("m", threads=Threads(vcpus, instances)), pool(shared)),
                {OPENMP: each, RAYON: each},
            )
            for vcpus, instances, each, shared in (
                (2, 2, "1", 1),
                (16, 2, "8", 15),
                (4, 1, "4", 4),
                (1, 2, "1", 1),
                (8, 3, "2", 6),
                (2, 4, "1", 1),
            )
        ),
        ({OPENMP: "3"}, ContainerOptions("m", threads=Threads(8)), pool(7), {OPENMP: "3"}),
        ({ADDITIONAL_ARGS: OWN_POOL}, ContainerOptions("m", threads=Threads(8)), [OWN_POOL], {}),
        ({ADDITIONAL_ARGS: OTHER}, ContainerOptions("m", threads=Threads(8)), [*pool(7), OTHER], {}),
        ({}, ContainerOptions("m", threads=Threads(8, graphs_decide=True)), [], {}),
        # Triton's backend for trees fails if OpenMP allows fewer threads than a model asks for.
        (
            {},
            *(ContainerOptions("m", threads=Threads(4, 2, least=8)), pool(3), {OPENMP: "8", RAYON: "2"}),
        ),
    ],
)
def test_variables_of_a_container(given, options, added, variables):
    result = container_variables(given, options)
    assert result[ADDITIONAL_ARGS].split() == [WITHOUT_COMPLETION, *added]
    assert {name: result.get(name) for name in variables} == variables
    assert list(variable_violations(given, model="m")) == []


def test_the_size_limit_includes_the_options_of_the_project():
    def arguments(size: int) -> dict[str, str]:
        return {ADDITIONAL_ARGS: "--" + "x" * (size - 2)}

    added = container_variables({}, ContainerOptions("m", keeps_answers=True, threads=Threads(MOST_VCPUS)))
    room = LONGEST_BYTES - len(added[ADDITIONAL_ARGS]) - 1
    assert list(variable_violations(arguments(room), model="m")) == []
    for size in (room + 1, LONGEST_BYTES + 1):
        (violation,) = variable_violations(arguments(size), model="m")
        assert (violation.path, "1,024" in violation.message) == ((ADDITIONAL_ARGS,), True)


@pytest.mark.parametrize(("size", "instances"), [(1, 2), ((1 << 30) - 1, 2), (1 << 30, 1)])
def test_large_graphs_have_one_instance(size, instances):
    assert graph_instances(size) == instances


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
