"""Warn of model sources that can change without a change of model.yaml."""

from __future__ import annotations

import re

from tritonstack.base.error_kinds import ChangedSourceError
from tritonstack.base.errors import FileViolation
from tritonstack.base.yaml import Document
from tritonstack.files.model.model import ModelSpec

_HUB = "hf://"
_COMMIT = re.compile(r"[0-9a-f]{40}")


def source_warnings(document: Document[ModelSpec]) -> list[FileViolation]:
    """Return a warning if the source names a branch, a tag, or a short commit on the Hub."""
    source = document.record.source or ""
    revision = source.rpartition("@")[2]
    if not source.startswith(_HUB) or _COMMIT.fullmatch(revision):
        return []
    return [
        document.violation(
            ChangedSourceError,
            ("source",),
            f"{revision!r} is not a full commit hash: if it moves, the locked artifact stays as it is, and "
            "another machine can build other weights",
            "write the 40 hexadecimal digits of the commit, from the model's page on the Hub",
        )
    ]
