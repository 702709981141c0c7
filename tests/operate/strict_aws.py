"""Stand-ins for CodeBuild, SageMaker Processing, and CloudWatch Logs that reject what those would reject.

Each call is validated with botocore's own model of the service. moto supports neither the variables nor the
token of a build, and its Processing jobs never end.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import botocore.session
from botocore.exceptions import ClientError
from botocore.validate import ParamValidator

BEGAN = datetime(2030, 1, 1, tzinfo=UTC)
"""When jobs were made."""
_LATER_MS = int(BEGAN.timestamp() * 1000) + 60_000
_A_PAGE = 2
_SESSION = botocore.session.get_session()


def checked(service: str, operation: str, parameters: Mapping[str, Any]) -> None:
    """Raise for unknown parameters and wrong types."""
    shape = _SESSION.get_service_model(service).operation_model(operation).input_shape
    report = ParamValidator().validate(dict(parameters), shape)
    if report.has_errors():
        raise ValueError(f"{operation}: {report.generate_report()}")


class EveryPage:
    """A paginator that follows the service's tokens."""

    def __init__(self, list_them: Callable[..., dict[str, Any]]) -> None:
        self._list_them = list_them

    def paginate(self, **parameters: Any) -> Iterator[dict[str, Any]]:
        page = self._list_them(**parameters)
        yield page
        while token := page.get("NextToken"):
            page = self._list_them(**parameters, NextToken=token)
            yield page


class OnePage:
    """A paginator with a single page."""

    def __init__(self, list_them: Callable[..., dict[str, Any]]) -> None:
        self._list_them = list_them

    def paginate(self, **parameters: Any) -> Iterator[dict[str, Any]]:
        yield self._list_them(**parameters)


def client_error(operation: str, code: str, message: str, **members: Any) -> ClientError:
    """Return a service's error, with the other members that its model defines."""
    answer: Any = {"Error": {"Code": code, "Message": message}, **members}
    return ClientError(answer, operation)


class StrictCodeBuild:
    """Projects whose builds run until the test ends them, within their concurrency limit."""

    def __init__(self, *projects: str, quota: int = 9, limit: int = 4) -> None:
        self.builds: dict[str, dict[str, Any]] = {}
        self.started: list[dict[str, Any]] = []
        self.rejected: list[str] = []
        """The projects of builds that were beyond a limit."""
        self.stopped: list[str] = []
        self._projects = projects
        self._tokens: dict[str, tuple[dict[str, Any], str]] = {}
        self._quota, self._limit = quota, limit
        self._numbers = itertools.count(1)

    def start_build(self, **parameters: Any) -> dict[str, Any]:
        checked("codebuild", "StartBuild", parameters)
        name, token = parameters["projectName"], parameters["idempotencyToken"]
        self._require(name)
        if token in self._tokens:
            before, build_id = self._tokens[token]
            if before != parameters:
                raise client_error("StartBuild", "InvalidInputException", "parameter mismatch")
            return {"build": self.builds[build_id]}
        running = [build for build in self.builds.values() if not build["buildComplete"]]
        for held, most, words in (
            (running, self._quota, "builds in queue for the account"),
            (
                [item for item in running if item["projectName"] == name],
                self._limit,
                "active builds for the project",
            ),
        ):
            if len(held) >= most:
                self.rejected.append(name)
                limit = f"Cannot have more than {most} {words}"
                raise client_error("StartBuild", "AccountLimitExceededException", limit)
        build_id = f"{name}:{next(self._numbers)}"
        self._tokens[token] = (parameters, build_id)
        self.started.append(parameters)
        self.builds[build_id] = {
            "id": build_id,
            "projectName": name,
            "buildStatus": "IN_PROGRESS",
            "buildComplete": False,
            "currentPhase": "QUEUED",
            "startTime": BEGAN + timedelta(minutes=len(self.builds)),
            "environment": {"environmentVariables": parameters["environmentVariablesOverride"]},
            "logs": {},
        }
        return {"build": self.builds[build_id]}

    def list_builds_for_project(self, **parameters: Any) -> dict[str, Any]:
        checked("codebuild", "ListBuildsForProject", parameters)
        self._require(parameters["projectName"])
        ids = [key for key, build in self.builds.items() if build["projectName"] == parameters["projectName"]]
        return {"ids": ids if parameters.get("sortOrder") == "ASCENDING" else ids[::-1]}

    def get_paginator(self, operation: str) -> OnePage:
        return OnePage(getattr(self, operation))

    def batch_get_builds(self, **parameters: Any) -> dict[str, Any]:
        checked("codebuild", "BatchGetBuilds", parameters)
        return {"builds": [self.builds[key] for key in parameters["ids"] if key in self.builds]}

    def stop_build(self, **parameters: Any) -> None:
        checked("codebuild", "StopBuild", parameters)
        self.stopped.append(parameters["id"])
        self.end(parameters["id"], "STOPPED")

    def end(self, build_id: str, status: str, *phases: dict[str, Any]) -> None:
        """End a build with a status."""
        self.builds[build_id] |= {
            "buildStatus": status,
            "buildComplete": True,
            "currentPhase": "COMPLETED",
            "phases": list(phases),
        }

    def write_log(self, build_id: str) -> None:
        """Write the log of a started build."""
        name = self.builds[build_id]["projectName"]
        self.builds[build_id] |= {
            "currentPhase": "BUILD",
            "logs": {"groupName": "/t-dev/builds", "streamName": f"{name}/{build_id.rpartition(':')[2]}"},
        }

    def _require(self, project: str) -> None:
        if project not in self._projects:
            raise client_error(
                "StartBuild", "ResourceNotFoundException", f"Project cannot be found: {project}"
            )


class StrictProcessing:
    """SageMaker's Processing jobs."""

    def __init__(self) -> None:
        self.jobs: dict[str, dict[str, Any]] = {}
        self.started: list[dict[str, Any]] = []

    def create_processing_job(self, **parameters: Any) -> None:
        checked("sagemaker", "CreateProcessingJob", parameters)
        name = parameters["ProcessingJobName"]
        if name in self.jobs:
            raise client_error("CreateProcessingJob", "ResourceInUse", f"{name} exists")
        self.started.append(parameters)
        self.put(name, "InProgress", parameters)

    def put(self, name: str, status: str, parameters: Mapping[str, Any] | None = None) -> None:
        """Add an existing job."""
        self.jobs[name] = {
            "AppSpecification": {"ImageUri": "image"},
            **(parameters or {}),
            "ProcessingJobName": name,
            "ProcessingJobArn": f"arn:aws:sagemaker:us-east-1:123456789012:processing-job/{name}",
            "ProcessingJobStatus": status,
            "CreationTime": BEGAN,
        }

    def describe_processing_job(self, **parameters: Any) -> dict[str, Any]:
        checked("sagemaker", "DescribeProcessingJob", parameters)
        return self.jobs[parameters["ProcessingJobName"]]

    def list_processing_jobs(self, **parameters: Any) -> dict[str, Any]:
        checked("sagemaker", "ListProcessingJobs", parameters)
        jobs = [
            job
            for name, job in reversed(self.jobs.items())
            if parameters.get("NameContains", "") in name
            and parameters.get("StatusEquals") in (None, job["ProcessingJobStatus"])
        ]
        first = int(parameters.get("NextToken", "0"))
        last = first + _A_PAGE
        more = {"NextToken": str(last)} if last < len(jobs) else {}
        return {"ProcessingJobSummaries": jobs[first:last], **more}

    def get_paginator(self, operation: str) -> EveryPage:
        return EveryPage(getattr(self, operation))

    def stop_processing_job(self, **parameters: Any) -> None:
        checked("sagemaker", "StopProcessingJob", parameters)
        job = self.jobs[parameters["ProcessingJobName"]]
        if job["ProcessingJobStatus"] != "InProgress":
            raise client_error(
                "StopProcessingJob", "ValidationException", "The job is in a status that ends."
            )
        job["ProcessingJobStatus"] = "Stopping"

    def delete_processing_job(self, **parameters: Any) -> None:
        checked("sagemaker", "DeleteProcessingJob", parameters)
        name = parameters["ProcessingJobName"]
        if name not in self.jobs:
            raise client_error("DeleteProcessingJob", "ResourceNotFound", f"no job {name}")
        if self.jobs[name]["ProcessingJobStatus"] in ("InProgress", "Stopping"):
            raise client_error("DeleteProcessingJob", "ResourceInUse", f"{name} has not ended")
        del self.jobs[name]


class StrictLogs:
    """Streams of one log group, read two lines at a time."""

    def __init__(self) -> None:
        self.streams: dict[str, list[str]] = {}
        self.made: dict[str, int] = {}
        """When, of those that were not made just now."""

    def get_log_events(self, **parameters: Any) -> dict[str, Any]:
        checked("logs", "GetLogEvents", parameters)
        if parameters["logStreamName"] not in self.streams:
            raise client_error(
                "GetLogEvents", "ResourceNotFoundException", "The specified log stream does not exist."
            )
        first = int(parameters.get("nextToken", "0"))
        lines = self.streams[parameters["logStreamName"]][first : first + 2]
        return {
            "events": [{"message": f"{line}\n"} for line in lines],
            "nextForwardToken": str(first + len(lines)),
        }

    def describe_log_streams(self, **parameters: Any) -> dict[str, Any]:
        checked("logs", "DescribeLogStreams", parameters)
        prefix = parameters["logStreamNamePrefix"]
        return {
            "logStreams": [
                {"logStreamName": name, "creationTime": self.made.get(name, _LATER_MS)}
                for name in self.streams
                if name.startswith(prefix)
            ]
        }
