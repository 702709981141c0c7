"""Load an environment with everything it refers to, and cross-check the files.

Errors name file and line; nothing here calls AWS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, cached_property
from pathlib import Path

from tritonstack.base.error_kinds import (
    CommandLineError,
    MissingReferenceError,
    PromotionRejectedError,
    UnknownNameError,
    UnusableNameError,
)
from tritonstack.base.errors import FileViolation, InvalidFilesError
from tritonstack.base.naming import check_name
from tritonstack.base.paths import Project
from tritonstack.base.yaml import Document, load_document, parse_document, suggest
from tritonstack.files.checks.compatibility import environment_violations
from tritonstack.files.checks.ensembles import composition_violations
from tritonstack.files.checks.regions import region_violations
from tritonstack.files.environment.environment import EnvironmentSpec
from tritonstack.files.environment.templates import HEAD, Instance, Template, instance_document, load_template
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.project.names import environment_names, has_model, model_names, template_names
from tritonstack.files.project.workspace import EnvironmentFiles, Workspace
from tritonstack.files.records.locks import Lock, load_lock
from tritonstack.files.sources.contents import check_model
from tritonstack.files.sources.model_hashes import ModelHash, file_digests, hash_model


class ProjectFiles:
    """One pass over a project's files: each of them is read, listed, and hashed at most once.

    It does not notice changes: after one, make another.
    """

    def __init__(self, project: Project) -> None:
        self.project = project
        self.environment_names = environment_names(project)
        self.template_names = template_names(project)
        self.lock = cache(lambda environment: load_lock(project.lock_file(environment)))
        """Load the lock of an environment."""
        self.checked = cache(lambda name: check_model(self._document(name)))
        """Load one model, and check its files."""
        self._document = cache(lambda name: load_document(project.model_file(name), ModelSpec))
        self._digests = cache(lambda name: file_digests(*self.checked(name)[:2]))
        self._environment = cache(self._load_environment)
        self._hashes: dict[str, ModelHash] = {}

    @cached_property
    def model_names(self) -> list[str]:
        """Its models, sorted."""
        return model_names(self.project)

    def model(self, name: str) -> Document[ModelSpec]:
        """Load one model."""
        if not has_model(self.project, name):
            _require_known(name, self.model_names, kind="model", folder=self.project.models_dir)
        document = self._document(name)
        if violations := list(_misnamed(document, name)):
            raise InvalidFilesError(violations)
        return document

    def models(self, names: Iterable[str], violations: list[FileViolation]) -> dict[str, Document[ModelSpec]]:
        """Load models and all their members, and add what is wrong with them; unknown names are omitted."""
        existing, models, waiting = set(self.model_names), {}, sorted(names)
        while waiting:
            name = waiting.pop(0)
            if name in models or name not in existing:
                continue
            try:
                models[name], _, faults = self.checked(name)
            except InvalidFilesError as error:
                violations += error.violations
                continue
            violations += faults
            waiting += models[name].record.members
        violations += composition_violations(models, existing)
        return dict(sorted(models.items()))

    def with_members(self, name: str) -> dict[str, Document[ModelSpec]]:
        """Load a model and all its members."""
        document = self.model(name)
        violations: list[FileViolation] = []
        models = self.models([name], violations)
        if violations:
            raise InvalidFilesError(violations)
        return {**models, name: document}

    def workspace(self, environment: str, *, text: str | None = None) -> Workspace:
        """Load an environment with everything it refers to; report all errors of all files at once.

        `text` is the content of its file if that is not saved yet.
        """
        if environment in self.template_names:
            raise CommandLineError(
                f"{environment!r} is a template, not an environment",
                remedy="add --name <name>, for example --name pr-123",
            )
        file = self.project.environment_file(environment)
        if text is not None:
            return self._whole(lambda: parse_document(text, file, EnvironmentSpec), environment)
        folder = self.project.environments_dir
        _require_known(environment, self.environment_names, kind="environment", folder=folder)
        return self._environment(environment)

    def template(self, name: str) -> Template:
        """Load a template, before any instance is filled in."""
        if name in self.environment_names:
            raise CommandLineError(
                f"{name!r} is an environment, not a template",
                remedy="omit --name; templates are files named <name>.template.yaml",
            )
        folder = self.project.environments_dir
        _require_known(name, self.template_names, kind="template", folder=folder)
        return load_template(self.project.template_file(name), name)

    def instance(self, instance: Instance) -> Workspace:
        """Load an instance of a template with everything it refers to, like `workspace`."""
        template = self.template(instance.template)
        require_free(self.project, instance.name)
        environments = self.environment_names
        unknown = template.violation(
            MissingReferenceError,
            (HEAD, "locks"),
            f"unknown environment {template.head.locks!r}",
            f"available: {', '.join(environments) or 'none'}",
        )
        return self._whole(
            lambda: instance_document(template, instance),
            template.head.locks,
            instance,
            () if template.head.locks in environments else (unknown,),
        )

    def _load_environment(self, name: str) -> Workspace:
        file = self.project.environment_file(name)
        return self._whole(lambda: load_document(file, EnvironmentSpec), name)

    def _whole(
        self,
        load: Callable[[], Document[EnvironmentSpec]],
        lock_owner: str,
        instance: Instance | None = None,
        others: Iterable[FileViolation] = (),
    ) -> Workspace:
        """Return an environment with everything it refers to; raise InvalidFilesError for errors."""
        violations = [*others]
        document: Document[EnvironmentSpec] | None = None
        try:
            document = load()
        except InvalidFilesError as error:
            violations[:0] = error.violations
        try:
            lock = self.lock(lock_owner)
        except InvalidFilesError as error:
            # An invalid lock counts as empty for the checks of the other files.
            violations += error.violations
            lock = Document(Lock(), self.project.lock_file(lock_owner), {})
        if document is None:
            raise InvalidFilesError(violations)
        served = {model for endpoint in document.record.endpoints.values() for model in endpoint.models}
        models = self.models(served, violations)
        hashes = {name: self._hash(name, models) for name in self._valid(models, violations)}
        files = EnvironmentFiles(self.project, document, lock, models, instance)
        violations += dict.fromkeys(self._contradictions(files, hashes))
        if violations:
            raise InvalidFilesError(violations)
        return Workspace(self.project, document, lock, models, instance, model_hashes=hashes)

    def _hash(self, name: str, models: Mapping[str, Document[ModelSpec]]) -> ModelHash:
        if name not in self._hashes:
            self._hashes[name] = hash_model(name, models, self._digests)
        return self._hashes[name]

    def _valid(
        self, models: Mapping[str, Document[ModelSpec]], violations: Iterable[FileViolation]
    ) -> list[str]:
        """Return the models whose files, and those of all their members, have no violation."""
        folder = self.project.models_dir
        invalid = {
            violation.file.relative_to(folder).parts[0]
            for violation in violations
            if violation.file.is_relative_to(folder)
        }

        def is_valid(name: str) -> bool:
            # Circles have violations themselves, so this ends.
            return name in models and name not in invalid and all(map(is_valid, models[name].record.members))

        return [name for name in models if is_valid(name)]

    def _contradictions(
        self, workspace: EnvironmentFiles, hashes: Mapping[str, ModelHash]
    ) -> Iterator[FileViolation]:
        document, spec, models = workspace.environment, workspace.spec, self.model_names
        if workspace.instance is None:
            yield from _misnamed(document, document.file.stem)
        for name, model in workspace.models.items():
            yield from _misnamed(model, name)
        yield from region_violations(document)
        yield from _promotion_source(document, self.environment_names)
        for name in spec.endpoints:
            for served in dict.fromkeys(workspace.serves(name)):
                if served.model not in models:
                    yield document.violation(
                        MissingReferenceError,
                        served.place,
                        f"unknown model {served.model!r}",
                        suggest(served.model, models, f"available in models/: {', '.join(models) or 'none'}"),
                    )
            yield from environment_violations(workspace, name, hashes)


def load_workspace(project: Project, environment: str, *, text: str | None = None) -> Workspace:
    """Load one environment; see `ProjectFiles.workspace`."""
    return ProjectFiles(project).workspace(environment, text=text)


def load_models(project: Project, name: str) -> dict[str, Document[ModelSpec]]:
    """Load a model and all its members."""
    return ProjectFiles(project).with_members(name)


def require_free(project: Project, name: str) -> None:
    """Reject an instance name that belongs to an environment of the project."""
    try:
        check_name(name)
    except ValueError as error:
        text, _, remedy = str(error).partition("; ")
        raise CommandLineError(f"--name: {text}", remedy=remedy) from None
    if name in (*environment_names(project), *template_names(project)):
        raise UnusableNameError(
            f"environments/ already has a file for {name!r}, so no instance can have that name",
            remedy="choose another --name",
        )


def sample_instance(template: str, name: str = "sample") -> Instance:
    """Return an instance with the template's defaults, for checks and names."""
    return Instance(template, name, "somebody", "2000-01-01T00:00:00Z", {})


def _require_known(name: str, names: list[str], *, kind: str, folder: Path) -> None:
    if name in names:
        return
    listing = f"available: {', '.join(names)}" if names else f"{folder} has none"
    raise UnknownNameError(f"unknown {kind} {name!r}", remedy=suggest(name, names, listing))


def _promotion_source(
    document: Document[EnvironmentSpec], environments: Iterable[str]
) -> Iterator[FileViolation]:
    """Check that an environment is promoted from another environment of the project."""
    spec, promotion = document.record, document.record.promotion
    if promotion is None:
        return
    place = ("promotion", "source")
    others = [name for name in environments if name != spec.name]
    if promotion.source == spec.name:
        yield document.violation(
            PromotionRejectedError,
            place,
            f"{promotion.source!r} is this environment",
            f"name another environment: {', '.join(others) or 'none exists'}",
        )
    elif promotion.source not in others:
        yield document.violation(
            MissingReferenceError,
            place,
            f"unknown environment {promotion.source!r}",
            suggest(promotion.source, others, f"available: {', '.join(others) or 'none'}"),
        )


def _misnamed(
    document: Document[EnvironmentSpec] | Document[ModelSpec], expected: str
) -> Iterator[FileViolation]:
    if document.record.name != expected:
        yield document.violation(
            UnusableNameError,
            ("name",),
            f"the name is {document.record.name!r}, expected {expected!r} (from the path)",
            f"write `name: {expected}`, or rename the file",
        )


def chosen_model(project: Project, model: str | None) -> str:
    """Return the given model, or else the only one of the project."""
    if model is not None:
        return model
    names = model_names(project)
    if len(names) != 1:
        raise CommandLineError(
            "no model was named",
            remedy=f"name one of {', '.join(names)}" if names else "`tritonstack new model` adds one",
        )
    return names[0]
