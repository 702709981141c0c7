"""JSON records written and read by programs: manifests, examples, events."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from tritonstack.base.error_kinds import DamagedArtifactError
from tritonstack.base.yaml import Record

RecordT = TypeVar("RecordT", bound=Record)


def parse_record(
    record_type: type[RecordT], text: str | bytes, *, origin: str | Path, failure: str, remedy: str
) -> RecordT:
    """Parse a record; errors combine `origin`, `failure`, and the reason."""
    try:
        return record_type.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise DamagedArtifactError(
            f"{origin} {failure} of this version: {field}: {first['msg']}", remedy=remedy
        ) from None
