"""Create, change, list, and delete CodeBuild projects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tritonstack_local.codebuild.errors import invalid_input, no_project, project_exists
from tritonstack_local.codebuild.records import CodeBuildTables, ProjectRecord, now
from tritonstack_local.codebuild.unsupported import check_settings
from tritonstack_local.scope import Scope

PAGE_SIZE = 100


def page(items: Sequence[str], request: Mapping[str, Any]) -> tuple[list[str], str | None]:
    """Return the requested page, and the token of the next one if any."""
    token = request.get("nextToken") or "0"
    if not token.isdecimal():
        raise invalid_input("Invalid nextToken")
    start = int(token)
    end = start + PAGE_SIZE
    return list(items[start:end]), str(end) if end < len(items) else None


Fields = Mapping[str, Any]

_DEFAULTS: Fields = {
    "cache": {"type": "NO_CACHE"},
    "timeoutInMinutes": 60,
    "queuedTimeoutInMinutes": 480,
}


class Projects:
    """The actions on projects."""

    def __init__(self, *, store: CodeBuildTables) -> None:
        self._store = store

    def create(self, scope: Scope, request: Fields) -> Fields:
        """Create a project."""
        fields = _completed(scope, {**_DEFAULTS, **request})
        created = now()
        record = ProjectRecord(fields["name"], _arn(scope, fields["name"]), created, created, fields)
        if not self._store.projects.add(scope, record):
            raise project_exists(record.arn)
        return {"project": record.as_api()}

    def update(self, scope: Scope, request: Fields) -> Fields:
        """Change the given fields; lists and structures are replaced."""
        record = self._find(scope, request["name"])
        settings = {**record.fields, **request}
        # -1 removes the limit.
        if settings.get("concurrentBuildLimit") == -1:
            del settings["concurrentBuildLimit"]
        fields = _completed(scope, settings)
        changed = self._store.projects.change(
            scope, record.name, lambda record: replace(record, fields=fields, modified=now())
        )
        if changed is None:
            raise no_project(record.arn)
        return {"project": changed.as_api()}

    def delete(self, scope: Scope, request: Fields) -> Fields:
        """Delete a project; its builds continue. A missing project is not an error."""
        self._store.projects.remove(scope, _name(request["name"]))
        return {}

    def batch_get(self, scope: Scope, request: Fields) -> Fields:
        """Describe projects by their names or ARNs."""
        records = {name: self._store.projects.get(scope, _name(name)) for name in request["names"]}
        return {
            "projects": [record.as_api() for record in records.values() if record],
            "projectsNotFound": [name for name, record in records.items() if record is None],
        }

    def list(self, scope: Scope, request: Fields) -> Fields:
        """List names."""
        is_reversed = request.get("sortOrder") == "DESCENDING"
        names = sorted((record.name for record in self._store.projects.within(scope)), reverse=is_reversed)
        names, token = page(names, request)
        return {"projects": names, "nextToken": token}

    def _find(self, scope: Scope, name: str) -> ProjectRecord:
        record = self._store.projects.get(scope, _name(name))
        if record is None:
            raise no_project(_arn(scope, _name(name)))
        return record


def checked_settings(fields: Fields) -> None:
    """Reject invalid and unsupported settings of a project or a build."""
    check_settings(fields)
    source = fields["source"]
    if bool(source.get("location")) != (source["type"] == "S3"):
        raise invalid_input("Invalid project source: location is required for the type S3 only")
    if "\n" not in source.get("buildspec", "") and ": " not in source.get("buildspec", ""):
        raise invalid_input("Invalid project source: buildspec must be the text of a buildspec")
    limit = fields.get("concurrentBuildLimit")
    if limit is not None and limit < 1:
        raise invalid_input("Invalid concurrent build limit: it must be at least 1")


def _completed(scope: Scope, fields: dict[str, Any]) -> dict[str, Any]:
    fields.setdefault(
        "encryptionKey", f"arn:{scope.partition}:kms:{scope.region}:{scope.account}:alias/aws/s3"
    )
    fields["environment"] = {"environmentVariables": [], "privilegedMode": False, **fields["environment"]}
    checked_settings(fields)
    return fields


def _arn(scope: Scope, name: str) -> str:
    return scope.arn("codebuild", f"project/{name}")


def _name(name_or_arn: str) -> str:
    return name_or_arn.rpartition(":project/")[2]
