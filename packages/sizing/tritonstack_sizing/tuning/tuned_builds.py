"""Build a model with other settings: a copy of its files with edited model.yaml, in a folder of the search.

A form is the artifact of one combination of values. The user's files stay as they are. The copy has artifacts
of its own, and uses the server and the cache of the project.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from model_build.errors import ExportError, ParityError, UnsupportedModelError
from model_build.store.artifacts import read_manifest
from tritonstack.base.errors import TritonstackError, shown_path
from tritonstack.base.files import read_json, write_text_atomically
from tritonstack.base.paths import Project
from tritonstack.base.yaml import Document, TextualDumper, load_yaml, read_text
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.records.examples import EXAMPLES_NAME
from tritonstack.files.records.manifests import ARCHIVE_NAME, Manifest
from tritonstack.files.scaffold.yaml_edits import with_changes
from tritonstack.operate.build.local_build import (
    CPU_TARGETS,
    BuildProcesses,
    build_command,
    build_log,
    run_build,
)
from tritonstack.operate.shared.session import Session
from tritonstack_sizing.errors import SearchError
from tritonstack_sizing.tuning.tuned_settings import BATCH_TOKENS, Setting, has_small_batches

_PERMANENT_ERRORS = frozenset({ExportError.code, UnsupportedModelError.code, ParityError.code})
"""Codes of builds that fail each time: no export, or wrong answers. All others may succeed the next time."""
BuiltValues = tuple[tuple[Setting, Any], ...]
"""Settings that need a build, with their values."""


@dataclass(frozen=True)
class Form:
    """A built artifact, unpacked."""

    manifest: Manifest
    repository: Path
    examples: Path


@dataclass
class FormBuilder:
    """Builds a model with any values of the settings that need a build; each form once."""

    session: Session
    model: str
    models: Mapping[str, Document[ModelSpec]]
    folder: Path
    """The folder of the search."""

    def form(self, values: BuiltValues, *, sized: bool = False) -> Form:
        """Return a form, built now or before; raise the error of its build.

        A `sized` form can be served with any `batch_tokens`. One that is not has the digest of a build of the
        user's files with these values.
        """
        # Imported here: it needs the extra `build`, whose absence the command reports first.
        from model_build.store.archive import most_members, unpack  # noqa: PLC0415

        changes = {(setting.model, setting.field): value for setting, value in values}
        key = [*sorted(map(str, changes.items())), *(["sized"] if sized else [])]
        root = self.folder / "forms" / hashlib.sha256(json.dumps(key).encode()).hexdigest()[:12]
        built_file, failed_file = root / "built.json", root / "failed.json"
        if failed_file.exists():
            raise SearchError(
                read_json(failed_file)["message"],
                remedy=f"see {shown_path(self.folder / 'forms')}, or remove the folder to build it again",
            )
        if not built_file.exists():
            shutil.rmtree(root, ignore_errors=True)
            project = Project(root / "project")
            self._copy(project, values, sized=sized)
            try:
                artifact = self._build(project, values)
            except TritonstackError as error:
                if values and error.code in _PERMANENT_ERRORS:
                    message = {"message": error.message.splitlines()[0]}
                    write_text_atomically(failed_file, json.dumps(message))
                raise
            manifest = read_manifest(artifact)
            unpack(
                artifact / ARCHIVE_NAME,
                root / "repository",
                limit_bytes=manifest.unpacked_bytes,
                limit_members=most_members(manifest.files),
            )
            write_text_atomically(built_file, json.dumps({"artifact": str(artifact)}))
        artifact = Path(read_json(built_file)["artifact"])
        return Form(read_manifest(artifact), root / "repository", artifact / EXAMPLES_NAME)

    def _copy(self, project: Project, values: BuiltValues, *, sized: bool) -> None:
        """Copy the models, each with an edited model.yaml; other files are hard links."""
        for name, document in self.models.items():
            source, target = document.file.parent, project.models_dir / name
            shutil.copytree(source, target, copy_function=_link, symlinks=True)
            data = load_yaml(read_text(document.file))
            settings = [(setting, value) for setting, value in values if setting.model == name]
            settings += _small_batches(document.record, values) if sized else ()
            for setting, value in settings:
                data = setting.change(data, value)
            if (source_folder := _outside_source(document)) is not None:
                data = with_changes(data, (), {"source": f"file://{source_folder}"})
            file = project.model_file(name)
            file.unlink()
            text = yaml.dump(data, Dumper=TextualDumper, allow_unicode=True, sort_keys=False)
            file.write_text(text, encoding="utf-8")

    def _build(self, project: Project, values: BuiltValues) -> Path:
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        user_project = self.session.project
        for name, shared in (("server", user_project.server_dir), ("cache", user_project.cache_dir)):
            shared.mkdir(parents=True, exist_ok=True)
            if not (home / name).is_symlink():
                (home / name).symlink_to(shared, target_is_directory=True)
        processes = BuildProcesses(expose=False, variables={"TRITONSTACK_HOME": str(home)})
        description = ", ".join(f"{setting.dimension.name} {value}" for setting, value in values)
        command = build_command(project, self.model, CPU_TARGETS, {})
        title = f"building {self.model}{f' with {description}' if description else ''}"
        try:
            with self.session.reporter.step(title) as step:
                log = build_log(self.session, f"{self.model}-tune")
                event = run_build(processes, step, command, log, subject=f"the build of {self.model}")
        finally:
            processes.end()
        return Path(event["directory"])


def _small_batches(spec: ModelSpec, values: BuiltValues) -> Iterator[tuple[Setting, Any]]:
    """Yield the usual size of small batches: an artifact with a size can be served with any."""
    two_models = any(
        setting.model == spec.name and setting.field == "one_model" and value is False
        for setting, value in values
    )
    if has_small_batches(spec) and getattr(spec.recipe, "batch_tokens", None) is None and not two_models:
        yield Setting.of(spec.name, "batch_tokens"), BATCH_TOKENS


def _outside_source(document: Document[ModelSpec]) -> Path | None:
    """Return the folder of a source outside the model's folder, which a copy would not find."""
    source = document.record.source or ""
    if not source.startswith("file://"):
        return None
    folder = document.file.parent.resolve()
    source_folder = (folder / source.removeprefix("file://")).resolve()
    return None if source_folder.is_relative_to(folder) else source_folder


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system has no hard links to this one
        shutil.copy2(source, target)
