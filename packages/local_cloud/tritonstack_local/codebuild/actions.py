"""The actions of CodeBuild on projects and builds, and the builds that run."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from tritonstack_local.codebuild.build_run import FOUND_DEAD, BuildRun, BuildServices
from tritonstack_local.codebuild.records import BuildRecord, Phase, ProjectRecord, Status, invalid_input, now
from tritonstack_local.codebuild.unsupported import check_settings
from tritonstack_local.scope import Scope
from tritonstack_local.service.errors import ServiceError
from tritonstack_local.service.wire import Fields

_STOP_PATIENCE_S = 30.0
_CLOSED: tuple[Status, str, str] = (
    "FAULT",
    "INTERNAL_SERVICE_ERROR",
    f"{FOUND_DEAD} The local cloud ended.",
)
_TOKEN_LASTS = timedelta(minutes=5)
_DEFAULTS: Fields = {
    "cache": {"type": "NO_CACHE"},
    "timeoutInMinutes": 60,
    "queuedTimeoutInMinutes": 480,
}
# Field of the request -> _overridden field.
_OVERRIDES = {
    "sourceVersion": ("sourceVersion",),
    "sourceTypeOverride": ("source", "type"),
    "sourceLocationOverride": ("source", "location"),
    "buildspecOverride": ("source", "buildspec"),
    "imageOverride": ("environment", "image"),
    "serviceRoleOverride": ("serviceRole",),
    "timeoutInMinutesOverride": ("timeoutInMinutes",),
}


class BuildPool:
    """Runs builds, never queued: there are no quotas, and projects reject builds beyond their limit."""

    def __init__(self, services: BuildServices) -> None:
        self._services = services
        self._runs: dict[tuple[Scope, str], tuple[BuildRun, threading.Thread]] = {}
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

    def running(self, scope: Scope, project: str) -> int:
        """Count the builds of a project that run."""
        with self._lock:
            names = [name for where, name in self._runs if where == scope]
        builds = [self._services.store.builds.get(scope, name) for name in names]
        return sum(build is not None and build.project == project and not build.complete for build in builds)

    def stop(self, scope: Scope, build_id: str) -> None:
        """Stop a build and wait for its end; finished builds do not change."""
        with self._lock:
            running = self._runs.get((scope, build_id))
        if running is not None:
            running[0].end("STOPPED")
            running[1].join(_STOP_PATIENCE_S)

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


class CodeBuildActions:
    """The actions."""

    def __init__(self, services: BuildServices, pool: BuildPool) -> None:
        self._projects, self._builds = services.store.projects, services.store.builds
        self._pool = pool
        self._starting = threading.Lock()
        self._tokens: dict[tuple[Scope, str], BuildRecord] = {}
        """Not kept: a restart ends the builds."""

    def create_project(self, scope: Scope, request: Fields) -> Fields:
        """Create a project."""
        fields = _completed(scope, {**_DEFAULTS, **request})
        created = now()
        record = ProjectRecord(fields["name"], _arn(scope, fields["name"]), created, created, fields)
        if not self._projects.add(scope, record):
            raise ServiceError("ResourceAlreadyExistsException", f"Project already exists: {record.arn}")
        return {"project": record.as_api()}

    def update_project(self, scope: Scope, request: Fields) -> Fields:
        """Change the given fields; lists and structures are replaced."""
        project = self._project(scope, request["name"])
        settings = {**project.fields, **request}
        # -1 removes the limit.
        if settings.get("concurrentBuildLimit") == -1:
            del settings["concurrentBuildLimit"]
        fields = _completed(scope, settings)
        return {"project": self._change(scope, project.name, fields=fields, modified=now()).as_api()}

    def delete_project(self, scope: Scope, request: Fields) -> Fields:
        """Delete a project; its builds continue. A missing project is not an error."""
        self._projects.remove(scope, _name(request["name"]))
        return {}

    def batch_get_projects(self, scope: Scope, request: Fields) -> Fields:
        """Describe projects by their names or ARNs."""
        records = {name: self._projects.get(scope, _name(name)) for name in request["names"]}
        return {
            "projects": [record.as_api() for record in records.values() if record],
            "projectsNotFound": [name for name, record in records.items() if record is None],
        }

    def list_projects(self, scope: Scope, request: Fields) -> Fields:
        """List the names of all projects; a page has them all."""
        return {"projects": sorted(record.name for record in self._projects.within(scope))}

    def start_build(self, scope: Scope, request: Fields) -> Fields:
        """Start a build, or return the one started with the same token."""
        project = self._project(scope, request["projectName"])
        settings = _overridden(project.fields, request)
        with self._starting:
            earlier = self._with_token(scope, request)
            if earlier is not None:
                return {"build": earlier.as_api(scope)}
            _check(settings)
            limit = project.fields.get("concurrentBuildLimit")
            if limit is not None and self._pool.running(scope, project.name) >= limit:
                # Such builds are not queued, as on AWS.
                message = f"Cannot have more than {limit} active builds for the project"
                raise ServiceError("AccountLimitExceededException", message)
            build = self._begun(scope, project, request, settings)
            self._pool.start(scope, build)
        return {"build": build.as_api(scope)}

    def stop_build(self, scope: Scope, request: Fields) -> Fields:
        """Stop a build and all its processes."""
        name = _build_id(request["id"])
        self._pool.stop(scope, name)
        build = self._builds.get(scope, name)
        if build is None:
            message = f"The provided build {request['id']} does not exist"
            raise ServiceError("ResourceNotFoundException", message)
        return {"build": build.as_api(scope)}

    def batch_get_builds(self, scope: Scope, request: Fields) -> Fields:
        """Describe builds by their ids or ARNs."""
        builds = {name: self._builds.get(scope, _build_id(name)) for name in request["ids"]}
        return {
            "builds": [build.as_api(scope) for build in builds.values() if build],
            "buildsNotFound": [name for name, build in builds.items() if build is None],
        }

    def list_builds(self, scope: Scope, request: Fields) -> Fields:
        """List the ids of all builds, latest first by default; a page has them all."""
        return _listed(self._builds.within(scope), request)

    def list_builds_for_project(self, scope: Scope, request: Fields) -> Fields:
        """List the ids of a project's builds."""
        project = self._project(scope, request["projectName"])
        return _listed([it for it in self._builds.within(scope) if it.project == project.name], request)

    def _begun(self, scope: Scope, project: ProjectRecord, request: Fields, settings: Fields) -> BuildRecord:
        counted = self._change(scope, project.name, builds=project.builds + 1)
        began, name = now(), f"{project.name}:{uuid.uuid4()}"
        build = BuildRecord(
            name=name,
            arn=scope.arn("codebuild", f"build/{name}"),
            number=counted.builds,
            settings=settings,
            request=request,
            initiator="root",
            started=began,
            phases=(Phase("SUBMITTED", began).closed("SUCCEEDED"), Phase("QUEUED", began)),
        )
        self._builds.add(scope, build)
        if "idempotencyToken" in request:
            self._tokens[scope, request["idempotencyToken"]] = build
        return build

    def _with_token(self, scope: Scope, request: Fields) -> BuildRecord | None:
        build = self._tokens.get((scope, request.get("idempotencyToken", "")))
        if build is None or now() - build.started >= _TOKEN_LASTS:
            return None
        if build.request != request:
            raise invalid_input("The idempotency token was used with other parameters: parameter mismatch")
        return self._builds.get(scope, build.name)

    def _project(self, scope: Scope, name: str) -> ProjectRecord:
        project = self._projects.get(scope, _name(name))
        if project is None:
            message = f"Project cannot be found: {_arn(scope, _name(name))}"
            raise ServiceError("ResourceNotFoundException", message)
        return project

    def _change(self, scope: Scope, name: str, **fields: Any) -> ProjectRecord:
        changed = self._projects.change(scope, name, lambda record: replace(record, **fields))
        return changed or self._project(scope, name)  # deleted meanwhile


ACTIONS: Mapping[str, Callable[[CodeBuildActions, Scope, Fields], Fields]] = {
    "CreateProject": CodeBuildActions.create_project,
    "UpdateProject": CodeBuildActions.update_project,
    "DeleteProject": CodeBuildActions.delete_project,
    "BatchGetProjects": CodeBuildActions.batch_get_projects,
    "ListProjects": CodeBuildActions.list_projects,
    "StartBuild": CodeBuildActions.start_build,
    "StopBuild": CodeBuildActions.stop_build,
    "BatchGetBuilds": CodeBuildActions.batch_get_builds,
    "ListBuilds": CodeBuildActions.list_builds,
    "ListBuildsForProject": CodeBuildActions.list_builds_for_project,
}


def _overridden(fields: Fields, request: Fields) -> dict[str, Any]:
    """Return a project's fields with a request's overrides; variables are merged by name."""
    settings = dict(fields)
    for name, (field, *members) in _OVERRIDES.items():
        if name in request:
            value = request[name]
            settings[field] = {**settings.get(field, {}), members[0]: value} if members else value
    variables = {
        item["name"]: {"type": "PLAINTEXT", **item}
        for item in (
            *settings["environment"].get("environmentVariables", []),
            *request.get("environmentVariablesOverride", []),
        )
    }
    settings["environment"] = {**settings["environment"], "environmentVariables": list(variables.values())}
    return settings


def _check(fields: Fields) -> None:
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
    key = f"arn:{scope.partition}:kms:{scope.region}:{scope.account}:alias/aws/s3"
    fields.setdefault("encryptionKey", key)
    fields["environment"] = {"environmentVariables": [], "privilegedMode": False, **fields["environment"]}
    _check(fields)
    return fields


def _listed(builds: Iterable[BuildRecord], request: Fields) -> Fields:
    latest_first = request.get("sortOrder") != "ASCENDING"
    builds = sorted(builds, key=lambda build: (build.started, build.number), reverse=latest_first)
    return {"ids": [build.name for build in builds]}


def _arn(scope: Scope, name: str) -> str:
    return scope.arn("codebuild", f"project/{name}")


def _name(name_or_arn: str) -> str:
    return name_or_arn.rpartition(":project/")[2]


def _build_id(id_or_arn: str) -> str:
    return id_or_arn.rpartition(":build/")[2]
