"""The actions of CodeBuild on projects and builds, and the builds that run."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from tritonstack_local.codebuild.build_run import FOUND_DEAD, BuildRun, BuildServices
from tritonstack_local.codebuild.records import (
    BuildRecord,
    CodeBuildTables,
    Phase,
    ProjectRecord,
    Status,
    invalid_input,
    no_build,
    no_project,
    now,
    project_exists,
    too_many,
)
from tritonstack_local.codebuild.unsupported import check_settings
from tritonstack_local.scope import Scope
from tritonstack_local.service.wire import Fields

PAGE_SIZE = 100


def page(items: Sequence[str], request: Mapping[str, Any]) -> tuple[list[str], str | None]:
    """Return the requested page, and the token of the next one if any."""
    token = request.get("nextToken") or "0"
    if not token.isdecimal():
        raise invalid_input("Invalid nextToken")
    start = int(token)
    end = start + PAGE_SIZE
    return list(items[start:end]), str(end) if end < len(items) else None


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


_STOP_PATIENCE_S = 30.0
_CLOSED: tuple[Status, str, str] = (
    "FAULT",
    "INTERNAL_SERVICE_ERROR",
    f"{FOUND_DEAD} The local cloud ended.",
)
Key = tuple[Scope, str]


class BuildPool:
    """Runs builds, never queued: there are no quotas, and projects reject builds beyond their limit."""

    def __init__(self, services: BuildServices) -> None:
        self._services = services
        self._runs: dict[Key, tuple[BuildRun, threading.Thread]] = {}
        self._lock = threading.Lock()

    def start(self, scope: Scope, build: BuildRecord) -> None:
        """Start a build."""
        run = BuildRun(self._services, scope, build)
        thread = threading.Thread(
            target=self._run, args=(scope, build, run), name=f"build {build.name}", daemon=True
        )
        with self._lock:
            self._runs[scope, build.name] = run, thread
            # Before it is registered: only a started thread can be joined.
            thread.start()

    def stop(self, scope: Scope, build_id: str) -> None:
        """Stop a build and wait for its end; finished builds do not change."""
        with self._lock:
            running = self._runs.get((scope, build_id))
        if running is None:
            return
        run, thread = running
        run.end("STOPPED")
        thread.join(_STOP_PATIENCE_S)

    def close(self) -> None:
        """End every build, because the cloud ends."""
        with self._lock:
            running = list(self._runs.values())
        for run, _ in running:
            run.end(*_CLOSED)
        for _, thread in running:
            thread.join(_STOP_PATIENCE_S)

    def interrupted(self) -> None:
        """Mark builds that were in progress when an earlier cloud ended as failed."""
        for scope, build in self._services.store.builds.everywhere():
            if not build.complete and (scope, build.name) not in self._runs:
                self._services.store.builds.change(scope, build.name, lambda record: record.over(*_CLOSED))

    def _run(self, scope: Scope, build: BuildRecord, run: BuildRun) -> None:
        try:
            run.run()
        finally:
            with self._lock:
                del self._runs[scope, build.name]


_TOKEN_LASTS = timedelta(minutes=5)
_INITIATOR = "root"

# Field of the request -> overridden field.
_OVERRIDES = {
    "sourceVersion": ("sourceVersion",),
    "sourceTypeOverride": ("source", "type"),
    "sourceLocationOverride": ("source", "location"),
    "buildspecOverride": ("source", "buildspec"),
    "imageOverride": ("environment", "image"),
    "serviceRoleOverride": ("serviceRole",),
    "timeoutInMinutesOverride": ("timeoutInMinutes",),
}


class Builds:
    """The actions on builds."""

    def __init__(self, *, store: CodeBuildTables, pool: BuildPool) -> None:
        self._store = store
        self._pool = pool
        self._starting = threading.Lock()

    def start(self, scope: Scope, request: Fields) -> Fields:
        """Start a build, or return the one started with the same token."""
        project = self._project(scope, request["projectName"])
        settings = overridden(project.fields, request)
        with self._starting:
            earlier = self._with_token(scope, request)
            if earlier is not None:
                return {"build": earlier.as_api(scope)}
            checked_settings(settings)
            self._check_build_limit(scope, project)
            build = self._begun(scope, project, request, settings)
        self._pool.start(scope, build)
        return {"build": build.as_api(scope)}

    def stop(self, scope: Scope, request: Fields) -> Fields:
        """Stop a build and all its processes."""
        build = self._build(scope, request["id"])
        self._pool.stop(scope, build.name)
        return {"build": self._build(scope, build.name).as_api(scope)}

    def batch_get(self, scope: Scope, request: Fields) -> Fields:
        """Describe builds by their ids or ARNs."""
        builds = {name: self._store.builds.get(scope, _id(name)) for name in request["ids"]}
        return {
            "builds": [build.as_api(scope) for build in builds.values() if build],
            "buildsNotFound": [name for name, build in builds.items() if build is None],
        }

    def list(self, scope: Scope, request: Fields) -> Fields:
        """List build ids, latest first by default."""
        return _listed(self._store.builds.within(scope), request)

    def list_for_project(self, scope: Scope, request: Fields) -> Fields:
        """List the ids of a project's builds."""
        project = self._project(scope, request["projectName"])
        builds = self._store.builds.within(scope)
        return _listed([build for build in builds if build.project == project.name], request)

    def _check_build_limit(self, scope: Scope, project: ProjectRecord) -> None:
        """Reject a build beyond the project's own limit; such builds are not queued, as on AWS."""
        limit = project.fields.get("concurrentBuildLimit")
        builds = self._store.builds.within(scope)
        running = sum(build.project == project.name and not build.complete for build in builds)
        if limit is not None and running >= limit:
            raise too_many(limit)

    def _begun(self, scope: Scope, project: ProjectRecord, request: Fields, settings: Fields) -> BuildRecord:
        counted = self._store.projects.change(
            scope, project.name, lambda record: replace(record, builds=record.builds + 1)
        )
        if counted is None:
            raise no_project(project.name)
        began, name = now(), f"{project.name}:{uuid.uuid4()}"
        build = BuildRecord(
            name=name,
            arn=scope.arn("codebuild", f"build/{name}"),
            number=counted.builds,
            settings=settings,
            request=request,
            initiator=_INITIATOR,
            started=began,
            phases=(Phase("SUBMITTED", began).closed("SUCCEEDED"), Phase("QUEUED", began)),
        )
        self._store.builds.add(scope, build)
        return build

    def _with_token(self, scope: Scope, request: Fields) -> BuildRecord | None:
        token = request.get("idempotencyToken")
        if token is None:
            return None
        for build in self._store.builds.within(scope):
            recent = now() - build.started < _TOKEN_LASTS
            if build.request.get("idempotencyToken") == token and recent:
                if build.request != request:
                    raise invalid_input(
                        "The idempotency token was used with other parameters: parameter mismatch"
                    )
                return build
        return None

    def _project(self, scope: Scope, name: str) -> ProjectRecord:
        project = self._store.projects.get(scope, name.rpartition(":project/")[2])
        if project is None:
            raise no_project(scope.arn("codebuild", f"project/{name}"))
        return project

    def _build(self, scope: Scope, name: str) -> BuildRecord:
        build = self._store.builds.get(scope, _id(name))
        if build is None:
            raise no_build(name)
        return build


def overridden(fields: Fields, request: Fields) -> dict[str, Any]:
    """Return a project's fields with a request's overrides; variables are merged by name."""
    settings = dict(fields)
    for name, path in _OVERRIDES.items():
        if name in request:
            settings[path[0]] = (
                request[name] if len(path) == 1 else {**settings.get(path[0], {}), path[1]: request[name]}
            )
    variables = {
        item["name"]: {"type": "PLAINTEXT", **item}
        for item in (
            *settings["environment"].get("environmentVariables", []),
            *request.get("environmentVariablesOverride", []),
        )
    }
    settings["environment"] = {**settings["environment"], "environmentVariables": list(variables.values())}
    return settings


def _listed(builds: list[BuildRecord], request: Fields) -> Fields:
    builds.sort(
        key=lambda build: (build.started, build.number), reverse=request.get("sortOrder") != "ASCENDING"
    )
    ids, token = page([build.name for build in builds], request)
    return {"ids": ids, "nextToken": token}


def _id(name_or_arn: str) -> str:
    return name_or_arn.rpartition(":build/")[2]
