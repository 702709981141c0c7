"""What an endpoint's records imply, and what prevents a deploy."""

import re
import shutil
from collections.abc import Callable

import pytest

from stacks.deployment import EndpointDeployment, plan_deployment
from tests.packaging.recording import RECORDS
from tests.stacks.assemblies import lock_everything
from tritonstack.base.errors import FileViolation
from tritonstack.base.paths import Project
from tritonstack.constructs.endpoint.triton_model import model_environment
from tritonstack.facts.container_variables import ADDITIONAL_ARGS, HTTP_THREADS
from tritonstack.files.checks.locks import Findings
from tritonstack.files.endpoint.endpoint import ServingOptions
from tritonstack.files.loading import ProjectFiles, load_workspace
from tritonstack.files.records.lock_writing import write_lock
from tritonstack.files.records.locks import Lock, load_lock
from tritonstack.operate.locks.checks import check_offline

GB = 1024**3


def locked(
    project: Project, *, endpoint: str = "plain", environment: str = "sample", **changes: int | str
) -> EndpointDeployment | list[FileViolation]:
    """Return the plan of an endpoint after a change of its encoder's lock entry."""
    workspace = lock_everything(project, environment)
    models = dict(workspace.lock.record.models)
    models["encoder"] = {
        target: artifact.model_copy(update=changes) for target, artifact in models["encoder"].items()
    }
    write_lock(project.lock_file(environment), Lock(models=models))
    return plan_deployment(load_workspace(project, environment), endpoint)


def violations_of(planned: EndpointDeployment | list[FileViolation]) -> list[FileViolation]:
    assert isinstance(planned, list)
    return planned


@pytest.fixture
def project(bare_project: Callable[[], Project]) -> Project:
    return bare_project()


def test_threads_are_derived_from_the_instances_in_the_artifact(project):
    plan = locked(project, instances=3, graphs_decide_threads=True, least_threads=5)
    assert isinstance(plan, EndpointDeployment)
    data = plan.variants[0].data
    assert (data.instances, data.graphs_decide_threads, data.least_threads) == (3, True, 5)
    shelf = locked(project, environment="every", endpoint="shelf", instances=3, least_threads=5)
    assert isinstance(shelf, EndpointDeployment)
    # A new model must not change the stack, unless the container would not serve it.
    assert (shelf.variants[0].data.instances, shelf.variants[0].data.least_threads) == (2, 5)


def test_more_cores_change_the_threads_and_not_the_artifact(project):
    def promoted(instance_type: str) -> tuple[str, dict[str, str]]:
        file = project.environment_file("sample")
        text = file.read_text()
        file.write_text(text.replace("ml.c7i.xlarge", instance_type))
        plan = locked(project, instances=2)
        file.write_text(text)
        assert isinstance(plan, EndpointDeployment)
        (variant,) = plan.variants
        return variant.data.url, model_environment(variant.data, variant.image, ServingOptions())

    (small, two), (large, sixteen) = promoted("ml.c7i.large"), promoted("ml.c7i.4xlarge")
    assert small == large
    assert (two["OMP_NUM_THREADS"], sixteen["OMP_NUM_THREADS"]) == ("1", "8")
    assert two[ADDITIONAL_ARGS].endswith("intra_op_thread_count=1")
    assert sixteen[ADDITIONAL_ARGS].endswith("intra_op_thread_count=15")
    assert (two[HTTP_THREADS], sixteen[HTTP_THREADS]) == ("2", "8")
    changed = {name for name in two if two[name] != sixteen[name]}
    assert changed == {"OMP_NUM_THREADS", "RAYON_NUM_THREADS", HTTP_THREADS, ADDITIONAL_ARGS}


@pytest.mark.parametrize(
    ("changes", "line", "words"),
    [
        ({"spec_hash": "00" * 32}, None, "another version"),
        ({"unpacked_bytes": 300 * GB}, 12, "611 GB.* 512 GB"),
        ({"environment": "every", "endpoint": "shelf", "unpacked_bytes": 300 * GB}, 17, "'encoder' .*611 GB"),
        ({"unpacked_bytes": 9 * GB}, 12, "9 GiB .* 8 GiB"),
        ({"unpacked_bytes": 5 * GB, "shared_memory_bytes": 4 * GB}, 12, "9 GiB .* 8 GiB"),
    ],
    ids=["version", "volume", "shared volume", "memory", "shared memory"],
)
def test_unfit_artifact_is_rejected(project, changes, line, words):
    violation = violations_of(locked(project, **changes))[0]
    assert line is None or violation.line == line
    assert re.search(words, violation.message)


def test_a_sealed_lock_of_version_0_1_0_deploys_the_same(tmp_path):
    project = Project(tmp_path / "shop")
    shutil.copytree(RECORDS / "0.1.0", project.root)
    lock = project.lock_file("local")
    assert "seal: " in lock.read_text()
    assert check_offline(ProjectFiles(project), ["local"]) == Findings()
    plan = plan_deployment(load_workspace(project, "local"), "double")
    assert isinstance(plan, EndpointDeployment)
    write_lock(lock, load_lock(lock).record)
    assert "seal: " not in lock.read_text()
    assert plan_deployment(load_workspace(project, "local"), "double") == plan
