"""The latest build of a model, among CodeBuild's builds and Processing jobs."""

from dataclasses import replace
from datetime import timedelta

from tests.operate.jobs.test_build_jobs import GROUND, ON_L4, account
from tests.operate.strict_aws import BEGAN, StrictCodeBuild, StrictProcessing
from tritonstack.base.naming import PROCESSING_LOG_GROUP
from tritonstack.operate.jobs.processing import ProcessingJobs
from tritonstack.operate.logs.reading import latest_build

CPU, SM86 = "t-dev-build-cpu", "t-dev-build-sm86"


def build(codebuild: StrictCodeBuild, project: str, model: str) -> str:
    token = f"{project}{model}{len(codebuild.started)}"
    variables = [{"name": "MODEL", "value": model, "type": "PLAINTEXT"}]
    started = codebuild.start_build(
        projectName=project, environmentVariablesOverride=variables, idempotencyToken=token
    )
    return str(started["build"]["id"])


def test_the_latest_build_of_all_projects_is_found():
    codebuild = StrictCodeBuild(CPU, SM86)
    build(codebuild, CPU, "m")
    latest = build(codebuild, SM86, "m")
    build(codebuild, CPU, "other")
    cloud = account(codebuild=codebuild)
    job = latest_build(cloud, "t-dev", "m", projects=[CPU, SM86], processing=False)
    assert job is not None
    assert (job.state.id, job.state.log_group, job.state.status) == (latest, "", "running")
    codebuild.write_log(latest)
    codebuild.end(latest, "FAILED")
    assert job.read_state().status == "failed"
    assert job.read_state().log_group == "/t-dev/builds"
    # A project that does not exist has no builds.
    assert latest_build(cloud, "t-dev", "absent", projects=[CPU, "t-dev-none"], processing=False) is None


def test_processing_jobs_are_found_by_their_model():
    sagemaker, codebuild = StrictProcessing(), StrictCodeBuild(CPU)
    service = ProcessingJobs(account(sagemaker=sagemaker), GROUND)
    first = service.start(ON_L4, "0" * 16, 1).id
    service.start(replace(ON_L4, model="other"), "1" * 16, 1)
    sagemaker.put("t-dev-other-build-job", "InProgress")  # of another environment
    cloud = account(sagemaker=sagemaker, codebuild=codebuild)
    job = latest_build(cloud, "t-dev", ON_L4.model, projects=[CPU], processing=True)
    assert job is not None
    assert (job.state.id, job.state.log_group) == (first, PROCESSING_LOG_GROUP)
    assert job.state.log_stream == f"{first}/"
    sagemaker.jobs[first]["ProcessingJobStatus"] = "Completed"
    assert job.read_state().status == "succeeded"

    build(codebuild, CPU, "other")
    sagemaker.jobs[first]["CreationTime"] = BEGAN + timedelta(hours=1)
    build(codebuild, CPU, ON_L4.model)
    latest = latest_build(cloud, "t-dev", ON_L4.model, projects=[CPU], processing=True)
    assert latest is not None
    assert latest.state.id == first
