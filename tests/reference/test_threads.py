"""Thread counts of a container: instances x threads = vCPUs."""

import pytest

from tritonstack.reference.container_variables import (
    ADDITIONAL_ARGS,
    LONGEST_BYTES,
    MOST_VCPUS,
    WITHOUT_COMPLETION,
    ContainerOptions,
    container_variables,
    variable_violations,
)
from tritonstack.reference.threads import OPENMP, RAYON, Threads, graph_instances

POOL = "--backend-config=onnxruntime,enable-global-threadpool=1"


def pool(threads: int) -> list[str]:
    return [POOL, f"--backend-config=onnxruntime,intra_op_thread_count={threads}"]


def arguments(variables: dict[str, str]) -> list[str]:
    return variables[ADDITIONAL_ARGS].split()


@pytest.mark.parametrize(
    ("vcpus", "instances", "each", "shared"),
    [(2, 2, 1, 1), (16, 2, 8, 15), (4, 1, 4, 4), (1, 2, 1, 1), (8, 3, 2, 6), (2, 4, 1, 1)],
)
def test_threads_share_the_cores(vcpus, instances, each, shared):
    variables = container_variables({}, ContainerOptions("m", threads=Threads(vcpus, instances)))
    assert (variables[OPENMP], variables[RAYON]) == (str(each), str(each))
    assert arguments(variables) == [WITHOUT_COMPLETION, *pool(shared)]
    if vcpus >= instances:
        assert shared - 1 + instances == vcpus  # the workers of the pool, and the thread of each instance


def test_unknown_hardware_leaves_threads_to_the_libraries():
    variables = container_variables({}, ContainerOptions("m"))
    assert OPENMP not in variables
    assert arguments(variables) == [WITHOUT_COMPLETION]


def test_a_file_overrides_each_setting():
    served = ContainerOptions("m", threads=Threads(8))
    assert container_variables({OPENMP: "3"}, served)[OPENMP] == "3"
    own = "--backend-config=onnxruntime,enable-global-threadpool=0"
    assert arguments(container_variables({ADDITIONAL_ARGS: own}, served)) == [WITHOUT_COMPLETION, own]
    other = "--backend-config=onnxruntime,default-max-batch-size=8"
    assert arguments(container_variables({ADDITIONAL_ARGS: other}, served)) == [
        WITHOUT_COMPLETION,
        *pool(7),
        other,
    ]


def test_a_model_that_sets_its_own_threads_keeps_them():
    served = ContainerOptions("m", threads=Threads(8, graphs_decide=True))
    assert arguments(container_variables({}, served)) == [WITHOUT_COMPLETION]


def test_a_tree_model_gets_the_threads_that_it_asks_for():
    # Triton's backend answers with an error if OpenMP allows fewer threads.
    variables = container_variables({}, ContainerOptions("m", threads=Threads(4, 2, least=8)))
    assert (variables[OPENMP], variables[RAYON]) == ("8", "2")


def test_the_size_limit_includes_the_options_of_the_project():
    def arguments(size: int) -> dict[str, str]:
        return {ADDITIONAL_ARGS: "--" + "x" * (size - 2)}

    added = container_variables({}, ContainerOptions("m", keeps_answers=True, threads=Threads(MOST_VCPUS)))
    room = LONGEST_BYTES - len(added[ADDITIONAL_ARGS]) - 1
    assert list(variable_violations(arguments(room), model="m")) == []
    (violation,) = variable_violations(arguments(room + 1), model="m")
    assert (violation.path, "1,024" in violation.message) == ((ADDITIONAL_ARGS,), True)
    (violation,) = variable_violations(arguments(LONGEST_BYTES + 1), model="m")
    assert (violation.path, "1,024" in violation.message) == ((ADDITIONAL_ARGS,), True)


@pytest.mark.parametrize(("size", "instances"), [(1, 2), ((1 << 30) - 1, 2), (1 << 30, 1)])
def test_large_graphs_have_one_instance(size, instances):
    assert graph_instances(size) == instances


def test_language_models_manage_their_own_threads():
    variables = container_variables({}, ContainerOptions("m", generates=True, threads=Threads(8)))
    assert OPENMP not in variables
    assert arguments(variables) == [WITHOUT_COMPLETION]
