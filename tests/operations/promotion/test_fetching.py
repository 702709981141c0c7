"""Fetching from a source that does not answer, or that somebody overwrites meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from botocore.exceptions import ReadTimeoutError

from tests.operations.changing_s3 import change_after
from tests.operations.two_accounts import make_manifest, two_accounts
from tritonstack.base.errors import TritonstackError
from tritonstack.base.paths import Project
from tritonstack.operations.artifacts import DamagedArtifactError
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


@pytest.mark.parametrize("fetched", [0, 4])
def test_an_archive_that_is_replaced_after_the_check_is_not_downloaded(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fetched: int
) -> None:
    """Before the first byte, also of a resumed download: the final checksum comes after gigabytes."""
    with two_accounts(project) as accounts:
        manifest = accounts.build("minilm", b"content")
        entry = accounts.lock("dev").models["minilm"]["cpu"]
        source = SourceArtifact(accounts.dev, accounts.bucket("dev"), "minilm", "cpu", entry)
        place = {"Bucket": source.bucket, "Key": f"{source.prefix}/model.tar.gz"}
        s3, note = accounts.dev.client("s3"), {"sha256": manifest.digest}
        partial = tmp_path / ".fetching" / "minilm" / entry.digest / "artifact" / "model.tar.gz"
        partial.parent.mkdir(parents=True)
        partial.write_bytes(b"content"[:fetched])
        received: list[int] = []
        with monkeypatch.context() as patched:
            change_after(
                patched,
                "HeadObject",
                "model.tar.gz",
                lambda: s3.put_object(**place, Body=b"CONTENT", Metadata=note),
            )
            with pytest.raises(DamagedArtifactError):
                fetch_artifact(source, manifest, store=tmp_path, on_bytes=received.append)
        assert sum(received) == fetched
        s3.put_object(**place, Body=b"content", Metadata=note)
        folder = fetch_artifact(source, manifest, store=tmp_path, on_bytes=received.append)
        assert (folder / "model.tar.gz").read_bytes() == b"content"
