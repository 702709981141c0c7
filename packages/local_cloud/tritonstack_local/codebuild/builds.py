"""Start, run, stop, and describe builds."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from tritonstack_local.codebuild.errors import invalid_input, no_build, no_project, too_many
from tritonstack_local.codebuild.projects import checked_settings, page
from tritonstack_local.codebuild.records import (
    BuildRecord,
    CodeBuildTables,
    Phase,
    ProjectRecord,
    Status,
    now,
)
from tritonstack_local.codebuild.runs.build_run import FOUND_DEAD, BuildRun, BuildServices
from tritonstack_local.scope import Scope

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


Fields = Mapping[str, Any]

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
