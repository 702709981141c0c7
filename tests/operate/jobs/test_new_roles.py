"""Jobs with new roles are restarted for a while if a service cannot assume the role yet."""

from dataclasses import replace
from typing import Any

import pytest

from tests.operate.destroy.test_deletion import FastClock
from tests.operate.jobs.test_build_jobs import GROUND, ON_L4, ORDER, PROJECT, account
from tests.operate.strict_aws import StrictCodeBuild, StrictProcessing, client_error
from tritonstack.operate.jobs.codebuild import CodeBuildJobs
from tritonstack.operate.jobs.jobs import BuildJobError, JobService, start_or_attach
from tritonstack.operate.jobs.processing import ProcessingJobs

ROLE = "arn:aws:iam::111111111111:role/t-dev-build-jobs"
CODEBUILDS = (
    "StartBuild",
    "InvalidInputException",
    f"CodeBuild is not authorized to perform: sts:AssumeRole on {ROLE}",
)
SAGEMAKERS = (
    "CreateProcessingJob",
    "ValidationException",
    f"Could not assume role {ROLE}. Please ensure that the role exists and allows principal "
    "'sagemaker.amazonaws.com' to assume the role.",
)


class NewRole:
    """A service that rejects so many calls with this message before it starts anything."""

    def __init__(self, service: Any, start: str, rejection: tuple[str, str, str], times: float) -> None:
        self._service, self._start, self._rejection, self.rejections = service, start, rejection, times
        self.calls = 0

    def __getattr__(self, operation: str) -> Any:
        real = getattr(self._service, operation)
        if operation != self._start:
            return real

        def start(**parameters: Any) -> Any:
            self.calls += 1
            if self.calls <= self.rejections:
                raise client_error(*self._rejection)
            return real(**parameters)

        return start


def new_roles(
    build_machine: str, times: float, rejection: tuple[str, str, str] | None = None
) -> tuple[NewRole, JobService, FastClock]:
    clock = FastClock()
    if build_machine == "codebuild":
        codebuild = NewRole(StrictCodeBuild(PROJECT), "start_build", rejection or CODEBUILDS, times)
        return codebuild, CodeBuildJobs(account(codebuild=codebuild), GROUND, PROJECT, clock=clock), clock
    sagemaker = NewRole(StrictProcessing(), "create_processing_job", rejection or SAGEMAKERS, times)
    return sagemaker, ProcessingJobs(account(sagemaker=sagemaker), GROUND, clock=clock), clock


def begin(service: JobService) -> str:
    order = ON_L4 if isinstance(service, ProcessingJobs) else replace(ORDER, role=ROLE)
    return start_or_attach(service, order, order.name(GROUND))[0].status


@pytest.mark.parametrize("build_machine", ["codebuild", "processing"])
def test_assume_role_is_retried_until_the_role_is_ready(build_machine):
    starts, service, clock = new_roles(build_machine, times=3)
    began = clock.passed
    assert begin(service) == "running"
    assert (starts.calls, clock.passed > began) == (4, True)


@pytest.mark.parametrize("build_machine", ["codebuild", "processing"])
def test_a_role_that_cannot_be_assumed_is_reported_with_the_service_message(build_machine):
    _, service, clock = new_roles(build_machine, times=float("inf"))
    began = clock.passed
    with pytest.raises(BuildJobError, match=ROLE):
        begin(service)
    assert 60 <= clock.passed - began <= 90


@pytest.mark.parametrize("build_machine", ["codebuild", "processing"])
@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("ValidationException", "1 validation error detected"),
        ("InvalidInputException", "Invalid environment variable"),
        ("AccessDeniedException", "User: me is not authorized to perform: sts:AssumeRole"),
    ],
)
def test_other_errors_are_not_retried(build_machine, code, message):
    starts, service, _ = new_roles(build_machine, times=1, rejection=("Start", code, message))
    with pytest.raises(BuildJobError, match=message):
        begin(service)
    assert starts.calls == 1
