"""What can keep a model from becoming an artifact.

TritonstackError
└── ModelBuildError
    ├── SourceError                 the model cannot be fetched, or is not what its file says
    │   └── UnsafeWeightsError      its weights are a pickle, which could run code when loaded
    ├── ExportError                 the framework cannot load the model or write its graph
    │   └── FieldError              a field of model.yaml contradicts the source
    ├── EngineError                 TensorRT is missing, of another version, or cannot build the engine
    ├── ParityError                 the answers are too far from the framework's
    ├── EnvironmentBuildError       the packages of a served model cannot be put together
    ├── LayoutError                 a Triton repository breaks a rule of SageMaker's hosting modes
    ├── ArchiveError                an archive cannot be read, or holds what it must not
    │   └── OversizedArchiveError   an archive exceeds its unpacked size limit
    ├── ResourceError               the disk is full, or the memory too small
    ├── LibraryError                a library, or code of the model, raised an exception of its own
    ├── ServingError                the packed artifact does not serve
    ├── CorruptArtifactError        an artifact's bytes are not those of its manifest
    └── PublishError                an artifact cannot be put into the bucket
"""

from __future__ import annotations

from model_build.secrets import redact
from tritonstack.base.errors import TritonstackError
from tritonstack.base.yaml import FieldPath


class ModelBuildError(TritonstackError):
    """A model cannot be built. Quoted program output has secrets removed."""

    code = "TS322"

    def __init__(self, message: str, *, remedy: str | None = None, code: str | None = None) -> None:
        super().__init__(redact(message), remedy=remedy and redact(remedy), code=code)


class SourceError(ModelBuildError):
    """The source cannot be fetched, or does not match model.yaml."""

    code = "TS301"


class UnsafeWeightsError(SourceError):
    """The weights are a pickle, which can run code when loaded."""

    code = "TS217"


class ExportError(ModelBuildError):
    """The framework cannot load the model or export its graph."""

    code = "TS305"


class FieldError(ExportError):
    """A field of model.yaml contradicts the source; the caller adds file and line."""

    code = "TS304"

    def __init__(self, field: FieldPath, message: str, *, remedy: str) -> None:
        super().__init__(message, remedy=remedy)
        self.field = field


class EngineError(ModelBuildError):
    """TensorRT is missing, has the wrong version, or cannot build the engine."""

    code = "TS310"


class ParityError(ModelBuildError):
    """The answers exceed the tolerance."""

    code = "TS312"


class EnvironmentBuildError(ModelBuildError):
    """The packages of a served model cannot be resolved or packed."""

    code = "TS318"


class LayoutError(ModelBuildError):
    """A Triton repository breaks a rule of SageMaker's hosting modes."""

    code = "TS319"


class ArchiveError(ModelBuildError):
    """An archive cannot be read, or contains forbidden entries."""

    code = "TS410"


class OversizedArchiveError(ArchiveError):
    """An archive exceeds its unpacked size limit."""


class ResourceError(ModelBuildError):
    """Disk full or out of memory."""

    code = "TS616"


class LibraryError(ModelBuildError):
    """A library or the model's own code raised an exception."""

    code = "TS309"


class ServingError(ModelBuildError):
    """The packed artifact does not serve."""

    code = "TS319"


class SilentModelError(ServingError):
    """Triton got no heartbeat from a model process within its fixed timeout."""


class CorruptArtifactError(ModelBuildError):
    """An artifact's checksum differs from its manifest."""

    code = "TS410"


class PublishError(ModelBuildError):
    """An artifact cannot be published to the bucket."""

    code = "TS413"
