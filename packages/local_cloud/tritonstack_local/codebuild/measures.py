"""What CodeBuild publishes of a build that has ended, for its project and for the account."""

from __future__ import annotations

from collections.abc import Iterator

from tritonstack_local.cloudwatch.metrics import Datum
from tritonstack_local.codebuild.records import BuildRecord

_NAMESPACE = "AWS/CodeBuild"


def measured(build: BuildRecord) -> Iterator[Datum]:
    """Give the values."""
    assert build.ended is not None  # noqa: S101 - only builds that have ended are measured
    succeeded = build.status == "SUCCEEDED"
    values = {
        "Builds": (1.0, "Count"),
        "SucceededBuilds" if succeeded else "FailedBuilds": (1.0, "Count"),
        "Duration": ((build.ended - build.started).total_seconds(), "Seconds"),
    }
    for dimensions in ({"ProjectName": build.project}, {}):
        for name, (value, unit) in values.items():
            yield Datum(_NAMESPACE, name, dimensions, value, unit)
