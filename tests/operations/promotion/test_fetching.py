"""Fetching from a source that does not answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from botocore.exceptions import ReadTimeoutError

from tests.operations.two_accounts import make_manifest
from tritonstack.base.errors import TritonstackError
from tritonstack.operations.aws import Cloud
from tritonstack.operations.promotion.fetching import SourceArtifact, fetch_artifact
from tritonstack.records.locks import entry_of


class Silent:
    """A cloud whose S3 is unreachable."""

    def client(self, _service: str) -> Silent:
        return self

    def head_object(self, **_: Any) -> None:
        raise ReadTimeoutError(endpoint_url="https://s3.eu-west-1.amazonaws.com")


def test_a_source_that_never_answers_is_reported(tmp_path: Path) -> None:
    manifest = make_manifest("minilm", b"content", spec_hash="ab" * 32)
    source = SourceArtifact(cast("Cloud", Silent()), "bucket", "minilm", "cpu", entry_of(manifest))
    with pytest.raises(TritonstackError, match=r"cannot fetch .*: Read timeout"):
        fetch_artifact(source, manifest, store=tmp_path, on_bytes=lambda _: None)
