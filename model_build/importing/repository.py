"""Import a Triton repository: choose its entry model, copy that with its parts, and check the copy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf import text_format

from model_build.errors import ExportError, ModelImportError
from model_build.importing.records import (
    SOURCE_FOLDER,
    ImportedModel,
    ImportRequest,
    example_inputs,
    given_inputs,
)
from model_build.linting.backends import completed
from model_build.linting.check import lint_folder
from model_build.linting.findings import Finding, ModelFolder
from model_build.linting.hosting import is_trace
from model_build.recipes.triton import PICKLED, tensors_of_config
from model_build.repository.config import CONFIG_NAME, model_config, model_config_schema
from model_build.repository.existing import parse_file
from model_build.repository.flattening import rename_model
from model_build.repository.layout import is_ensemble, outer_ensembles, parts_of
from model_build.repository.parts import ENSEMBLE_NOTE, VERSION
from tritonstack.base.error_kinds import UnknownNameError, UntrustedPickleError
from tritonstack.base.errors import reject
from tritonstack.base.source_files import copy_file, is_ignored, list_files
from tritonstack.base.yaml import suggest

Models = Mapping[str, ModelFolder]


@dataclass(frozen=True)
class RepositoryImport:
    """The models of a repository, and the one to import."""

    models: Models
    """The models with a configuration, by folder name."""
    shown: Path
    """The path for messages."""
    entry: str

    @property
    def name(self) -> str:
        """The name of the imported model."""
        return self.entry

    def write(self, folder: Path, name: str, request: ImportRequest) -> ImportedModel:
        """Copy the entry model and its parts below `folder`, the new model's folder."""
        repository = folder / SOURCE_FOLDER
        configs = {name: model.config for name, model in self.models.items()}
        parts = [self.entry, *(part for part in parts_of(self.entry, configs) if part in configs)]
        changes = [*copy_models(self.models, parts, repository)]
        left_out = sorted(self.models.keys() - set(parts))
        if left_out:
            changes.append(f"left out {', '.join(left_out)}: {self.entry} does not use them as steps")
        changes += [change for part in parts for change in _complete(repository / part)]
        findings = check_copy(repository, self.shown, request)
        if self.entry != name:
            rename_entry(repository, self.entry, name)
            changes.append(f"renamed the model {self.entry} to {name}; callers do not see its name")
        return finish(folder, name, request, "Triton repository", changes, findings)


def read_models(root: Path, shown: Path) -> Models:
    """Read the configurations of all model folders; raise InvalidFilesError if one cannot be parsed."""
    folders = [entry for entry in sorted(root.iterdir()) if entry.is_dir() and not is_trace(entry.name)]
    return {folder.name: read_model(folder, folder.name, shown / folder.name) for folder in folders}


def read_model(folder: Path, name: str, shown: Path) -> ModelFolder:
    """Read one model folder; its configuration is empty if it has no file, which Triton may complete."""
    if not (folder / CONFIG_NAME).exists():
        return ModelFolder(name, folder, shown, model_config_schema().ModelConfig(), has_config=False)
    _, config, lines = parse_file(folder / CONFIG_NAME, shown=shown / CONFIG_NAME)
    return ModelFolder(name, folder, shown, config, lines)


def choose_entry(models: Models, shown: Path, requested: str | None) -> str:
    """Return the model to import: the only one, or the only ensemble, or the one asked for."""
    if requested is not None:
        if requested in models:
            return requested
        raise UnknownNameError(
            f"{shown} has no model {requested!r}",
            remedy=suggest(requested, models, f"models: {', '.join(models)}"),
        )
    outer = outer_ensembles({name: model.config for name, model in models.items()})
    if len(models) == 1 or len(outer) == 1:
        return outer[0] if outer else next(iter(models))
    raise ModelImportError(
        f"{shown} has several models that serve by themselves: {', '.join(outer or models)}",
        remedy="import one at a time with --model; a multi-model endpoint serves them together",
    )


def copy_models(models: Models, names: Sequence[str], repository: Path) -> Iterator[str]:
    """Copy models file by file, without traces of tools; yield what was changed."""
    dropped = set[str]()
    for name in names:
        model = models[name]
        dropped |= {path.name for path in model.folder.rglob("*") if _is_stray(path.name)}
        for file in list_files(model.folder).values():
            if any(map(_is_stray, file.name.split("/"))):
                continue
            target = repository / name / file.name
            target.parent.mkdir(parents=True, exist_ok=True)
            copy_file(file, target)
        (repository / name).mkdir(parents=True, exist_ok=True)
        if is_ensemble(model.config) and not any((repository / name).glob("[0-9]*/*")):
            (repository / name / VERSION).mkdir(exist_ok=True)
            (repository / name / VERSION / "README.txt").write_text(ENSEMBLE_NOTE)
            yield f"added {name}/{VERSION}/README.txt: git keeps no empty folder, and Triton needs this one"
    if dropped:
        yield f"left out files of tools: {', '.join(sorted(dropped))}"


def _is_stray(name: str) -> bool:
    return is_trace(name) or is_ignored(name)


def rename_entry(repository: Path, entry: str, name: str) -> None:
    """Rename a model: endpoints load the model that has the artifact's name."""
    if (repository / name).exists():
        raise ModelImportError(f"the repository has another model {name!r}", remedy="choose another --name")
    (repository / entry).rename(repository / name)
    if (repository / name / CONFIG_NAME).exists():
        rename_model(repository / name)


def _complete(folder: Path) -> Iterator[str]:
    """Declare the tensors of an ONNX graph that its configuration leaves to Triton; yield what was added."""
    model = read_model(folder, folder.name, folder)
    whole = completed(model.config, model.versions)
    missing = [kind for kind in ("input", "output") if not getattr(model.config, kind)]
    if whole.backend != "onnxruntime" or not missing or not model.versions:
        return
    from model_build.graphs.onnx_files import graph_tensors  # noqa: PLC0415 - onnx imports slowly

    try:
        inputs, outputs = graph_tensors(model.versions[-1] / whole.default_model_filename)
    except (ExportError, OSError):
        return  # the check of the copy reports the file
    if model.config.max_batch_size > 0:
        inputs, outputs = (
            tuple(spec.model_copy(update={"shape": spec.shape[1:]}) for spec in specs)
            for specs in (inputs, outputs)
        )
    described = model_config(name="", inputs=inputs, outputs=outputs, max_batch=0)
    added = model_config_schema().ModelConfig()
    if not (model.config.backend or model.config.platform):
        added.backend = whole.backend
    for kind in missing:
        getattr(added, kind).MergeFrom(getattr(described, kind))
    file = folder / CONFIG_NAME
    before = file.read_text(encoding="utf-8").rstrip("\n") + "\n\n" if file.exists() else ""
    text = f"{before}# Added by the import: the graph's.\n{text_format.MessageToString(added)}"
    file.write_text(text, encoding="utf-8")
    yield f"added the {' and '.join(missing)} tensors of the graph to {folder.name}/{CONFIG_NAME}"


def check_copy(repository: Path, shown: Path, request: ImportRequest) -> tuple[Finding, ...]:
    """Lint the copy; raise InvalidFilesError with all errors, and return the warnings."""
    findings = lint_folder(repository, shown, request.options).findings
    reject([finding for finding in findings if finding.severity == "error"])
    return findings


def finish(
    folder: Path,
    name: str,
    request: ImportRequest,
    kind: str,
    changes: Sequence[str],
    findings: Sequence[Finding],
) -> ImportedModel:
    """Return the model.yaml of a repository whose entry model has the new model's name."""
    repository = folder / SOURCE_FOLDER
    require_trust(repository, request)
    config = read_model(repository / name, name, request.path).config
    if not (config.input and config.output):
        raise ModelImportError(
            f"{request.path}: the {CONFIG_NAME} of {name} declares no "
            f"{'output' if config.input else 'input'}",
            remedy="declare all inputs and outputs of the model there, so that requests can be made",
        )
    tensors = tensors_of_config(repository / name, config)
    inputs = (
        given_inputs(request.inputs, folder)
        if request.inputs is not None
        else example_inputs(tensors[0], config.max_batch_size, folder)
    )
    values: dict[str, Any] = {
        "name": name,
        "description": f"{name}: describe what it does.",
        "source": f"file://{SOURCE_FOLDER}",
        "recipe": {"kind": "triton", "layout": "ensemble" if is_ensemble(config) else "single"},
    }
    if request.trust_pickle is not None:
        values["trust"] = {"pickle": request.trust_pickle}
    values["test_inputs"] = inputs
    return ImportedModel(kind, values, tuple(changes), tuple(findings), tensors)


def require_trust(source: Path, request: ImportRequest) -> None:
    """Raise UsageError for pickles without a reason to trust them."""
    pickles = sorted(file for file in source.rglob("*") if file.name.endswith(PICKLED))
    if pickles and request.trust_pickle is None:
        names = ", ".join(file.relative_to(source).as_posix() for file in pickles[:5])
        raise UntrustedPickleError(
            f"{request.path} has pickles, which can run code when loaded: {names}",
            remedy="if you trust their author, add --trust-pickle REASON; it is written to model.yaml",
        )
