"""What can keep a model from becoming an artifact.

TritonstackError
└── ModelBuildError
    ├── SourceError                 the model cannot be fetched, or is not what its file says
    │   ├── DamagedSourceError      its files are damaged, or have names that are not allowed
    │   ├── AlteredSourceError      its files changed
    │   └── UnsafeWeightsError      its weights are a pickle, which could run code when loaded
    ├── ExportError                 the framework cannot load the model or write its graph
    │   ├── UserCodeError           code beside model.yaml cannot be imported, or fails
    │   └── FieldError              a field of model.yaml contradicts the source
    ├── EngineError                 TensorRT is missing, of another version, or cannot build the engine
    │   └── BuildMachineError       the machine has another TensorRT, GPU, or driver
    ├── ParityError                 the answers are too far from the framework's
    ├── EnvironmentBuildError       the packages of a served model cannot be put together
    ├── LayoutError                 a Triton repository breaks a rule of SageMaker's hosting modes
    ├── ArchiveError                an archive cannot be read, or holds what it must not
    │   └── OversizedArchiveError   an archive exceeds its unpacked size limit
    ├── ResourceError               the disk is full, or the memory too small
    ├── ServingError                the packed artifact does not serve
    ├── CorruptArtifactError        an artifact's bytes are not those of its manifest
    └── PublishError                an artifact cannot be put into the bucket
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from tritonstack.base.error_kinds import (
    ChangedSourceError,
    CopyError,
    DamagedArtifactError,
    MachineError,
    MissingSourceError,
    ModelCodeError,
    ModelMismatchError,
    PackagesError,
    SourceFileError,
    StorageError,
    UntrustedPickleError,
)
from tritonstack.base.errors import TritonstackError, UsageError
from tritonstack.base.yaml import FieldPath

# Remove secrets from errors, progress, and the output of child processes. Every ModelBuildError passes
# through `redact`, so callers may quote program output.

HIDDEN = "***"
SHORTEST = 8
"""Shorter values are not secrets, and replacing them would damage normal text."""

_SECRET_NAMES = re.compile(r"TOKEN|SECRET|PASSWORD|PASSWD|ACCESS_KEY|API_KEY|CREDENTIAL", re.IGNORECASE)
_PATTERNS = (
    # user:password@ in a URL, such as a package index
    (re.compile(r"(?<=://)[^/\s@'\"]+@"), f"{HIDDEN}@"),
    # URL signatures
    (
        re.compile(
            r"((?:X-Amz-(?:Signature|Credential|Security-Token)|AWSAccessKeyId|Signature|token|access_token)=)"
            r"[^&\s'\"]+",
            re.IGNORECASE,
        ),
        rf"\1{HIDDEN}",
    ),
    (re.compile(r"(authorization['\"]?\s*[:=]\s*['\"]?(?:bearer|basic)\s+)[^\s'\"]+", re.I), rf"\1{HIDDEN}"),
    (re.compile(r"\bhf_[A-Za-z0-9]{16,}\b"), HIDDEN),
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"), HIDDEN),
)


def redact(text: str, environment: Mapping[str, str] = os.environ) -> str:
    """Replace the values of this process's secrets, and everything that looks like a secret."""
    for name, value in environment.items():
        if len(value) >= SHORTEST and _SECRET_NAMES.search(name) and not _is_path(value):
            text = text.replace(value, HIDDEN)
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text


def _is_path(value: str) -> bool:
    """Return whether a value is a path: AWS_SHARED_CREDENTIALS_FILE names a file, not a secret."""
    return value.startswith(("/", "~", "."))


class ModelBuildError(TritonstackError):
    """One or more builds failed. The message has a part per build, each with its own code, and the path of
    the log.
    """

    code = "TS322"
    title = "Build failed"

    def __init__(self, message: str, *, remedy: str | None, code: str | None = None) -> None:
        super().__init__(redact(message), remedy=remedy and redact(remedy), code=code)


class SourceError(ModelBuildError):
    """The source cannot be fetched, or does not match model.yaml."""

    code = MissingSourceError.code


class DamagedSourceError(SourceError):
    """A file of the source is damaged, or has a name that is not allowed."""

    code = SourceFileError.code


class AlteredSourceError(SourceError):
    """A file of the source has another checksum than expected, or changed while it was fetched."""

    code = ChangedSourceError.code


class UnsafeWeightsError(SourceError):
    """The weights are a pickle, which can run code when loaded."""

    code = UntrustedPickleError.code


class ExportError(ModelBuildError):
    """The framework cannot load the model or export its graph. Check that the configuration, the tokenizer,
    and the weights belong together; the message quotes the library.
    """

    code = "TS305"
    title = "Model cannot be exported"


class UserCodeError(ExportError):
    """Code beside model.yaml cannot be imported, or fails."""

    code = ModelCodeError.code


class FieldError(ExportError):
    """A field of model.yaml contradicts the source; the caller adds file and line."""

    code = ModelMismatchError.code

    def __init__(self, field: FieldPath, message: str, *, remedy: str) -> None:
        super().__init__(message, remedy=remedy)
        self.field = field


class EngineError(ModelBuildError):
    """TensorRT failed, or the graph or its profiles do not fit the TensorRT version. Change
    `tensorrt.profiles`, choose another Triton release, or use `format: onnx`.
    """

    code = "TS310"
    title = "TensorRT cannot build the engine"


class BuildMachineError(EngineError):
    """The machine of the build has another TensorRT, GPU, or driver than the target needs."""

    code = MachineError.code


class ParityError(ModelBuildError):
    """The model gives other answers than the original framework, beyond the tolerance, perhaps only at other
    sizes or batches, where a size became a constant during export. Compute sizes with tensor operations, use
    a higher precision, or widen `accept` if the difference is acceptable.
    """

    code = "TS312"
    title = "Answers differ from the framework"


class EnvironmentBuildError(ModelBuildError):
    """The packages of a served model cannot be resolved or packed."""

    code = PackagesError.code


class LayoutError(ModelBuildError):
    """The archive or folder of a Triton model does not have the layout <model>/config.pbtxt and
    <model>/<version>/<files> at its top level, lacks a file, or has links, unsafe names, or files of other
    tools. Add, move, or remove what the message names.
    """

    code = "TS326"
    title = "Repository layout not accepted"


class ArchiveError(ModelBuildError):
    """An archive cannot be read, or contains forbidden entries."""

    code = DamagedArtifactError.code


class OversizedArchiveError(ArchiveError):
    """An archive exceeds its unpacked size limit."""


class ResourceError(ModelBuildError):
    """Disk full or out of memory."""

    code = StorageError.code


class ServingError(ModelBuildError):
    """Triton did not load the packed artifact, did not answer a test input, or did not end its responses.
    Read the end of the server's log in the message.
    """

    code = "TS319"
    title = "Artifact cannot be served"


class SilentModelError(ServingError):
    """Triton got no heartbeat from a model process within its fixed timeout."""


class CorruptArtifactError(ModelBuildError):
    """An artifact's checksum differs from its manifest."""

    code = DamagedArtifactError.code


class PublishError(ModelBuildError):
    """An artifact cannot be published to the bucket."""

    code = CopyError.code


class UnsupportedModelError(ExportError):
    """The file is damaged or of another kind, or the model uses something that the recipe or Triton's backend
    does not support, such as an operator, an architecture, or a tokenizer. Save or export it again as the
    message says, or use another recipe.
    """

    code = "TS306"
    title = "Model not supported by the recipe"


class ModelInputError(UsageError):
    """A test input lacks a tensor, has an unknown one, has another shape or type than the model takes, or has
    no expected answer.
    """

    code = "TS314"
    title = "Test input does not match the model"


class ModelConfigError(UsageError):
    """A `config.pbtxt` is not a valid Triton model configuration, has values that Triton rejects, or
    contradicts the model's file, its folder, or `model.yaml`. Correct or remove the field.
    """

    code = "TS316"
    title = "Invalid config.pbtxt"


class SurprisingSettingError(UsageError):
    """The model loads, but a setting or file has an effect that people rarely expect, such as idle instances
    or code that runs from a pickle. Change it, or ignore the warning.
    """

    code = "TS332"
    title = "Model setting with a surprising effect"


class ModelImportError(UsageError):
    """`tritonstack import` found no Triton model, Merlin export, or MLflow model, or several, or one with a
    part that no recipe serves. Name the folder or archive of one model, choose one with `--model`, or save
    the model as the help says.
    """

    code = "TS340"
    title = "Model cannot be imported"
