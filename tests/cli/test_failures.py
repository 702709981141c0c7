"""Output and leftovers of commands that are interrupted, cannot write, or find damaged artifacts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.manifests import manifest
from tests.operate.shared.test_operations import stand_in_cdk
from tests.projects import edit
from tritonstack.base.naming import artifact_prefix
from tritonstack.base.paths import Project
from tritonstack.cli.main import run
from tritonstack.files.loading import load_models
from tritonstack.files.records.lock_writing import add_to_lock
from tritonstack.files.records.manifests import ARCHIVE_NAME, MANIFEST_NAME, Manifest
from tritonstack.files.sources.model_hashes import model_hash
from tritonstack_local.cloud_folder import CloudAddress

DIGEST = "ab" * 32


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture
def root(project):
    return str(project.root)


def test_an_error_for_machines_is_one_json_document(project, root, capsys):
    edit(project.environment_file("dev"), "kind:", "knid:")
    code, out, err = said(capsys, "--project", root, "--json", "validate")
    error = json.loads(out)["error"]
    assert code == error["exit_code"] == 2
    assert [(violation["line"], violation["field"]) for violation in error["violations"]] == [
        (6, "endpoints.search.kind"),
        (7, "endpoints.search.knid"),
    ]
    assert "you mean 'kind'?" in str(error["violations"][1]["remedy"])
    assert error["code"] == "TS100"
    assert [violation["code"] for violation in error["violations"]] == ["TS106", "TS104"]
    assert "unknown key [TS104]" in err


@pytest.mark.parametrize("command", ["up", "down", "setup", "doctor"])
@pytest.mark.parametrize(
    ("home", "expected"),
    [
        ("{root}/file", "TS616"),
        ("{root}/file/below", "TS616"),
        ("x" * 300, "TS616"),
        ("{root}/circle", "TS901"),
        ("~no-such-user/x", "TS901"),
    ],
)
def test_a_state_folder_that_is_none_is_not_reported_as_a_bug(
    root, capsys, monkeypatch, command, home, expected
):
    Path(root, "file").write_text("")
    Path(root, "circle").symlink_to("circle")
    monkeypatch.setenv("TRITONSTACK_HOME", home.format(root=root))
    code, out, err = said(capsys, "--project", root, command)
    assert (command == "doctor" and code == 0) or f"error[{expected}]" in err + out
    assert "TS999" not in err + out


def test_a_cloud_of_another_account_is_rejected(project, root, capsys, monkeypatch):
    edit(project.environment_file("dev"), "1" * 12, "0" * 12)
    address = CloudAddress("http://localhost:1", 1, 1, "123456789012", "eu-west-1")
    monkeypatch.setattr("tritonstack.operate.shared.local_cloud.read_address", lambda _: address)
    code, _, err = said(capsys, "--project", root, "invoke", "dev", "search", "text")
    assert code == 1
    assert "123456789012, but environment 'dev'" in err


def manifest_of(project: Project, *, model: str = "minilm", digest: str = DIGEST) -> Manifest:
    spec_hash = model_hash("minilm", load_models(project, "minilm"))
    return manifest(model, digest=digest, spec_hash=spec_hash, source="file://x", weights_sha256="1" * 64)


@pytest.mark.parametrize(
    ("archive", "words"),
    [(b"y", "checksum mismatch for"), (None, "is missing in s3://")],
    ids=["corrupt", "absent"],
)
def test_deploy_without_a_valid_artifact_starts_nothing(project, root, capsys, account, archive, words):
    edit(project.environment_file("dev"), "1" * 12, account)
    stand_in_cdk(project.root, f"echo ran >> {project.root}/cdk-ran")
    manifest = manifest_of(project)
    add_to_lock(project.lock_file("dev"), [manifest])
    if archive is not None:
        folder = project.artifacts_dir / artifact_prefix("minilm", DIGEST)
        folder.mkdir(parents=True)
        (folder / MANIFEST_NAME).write_text(manifest.to_json())
        (folder / ARCHIVE_NAME).write_bytes(archive)
    code, _, err = said(capsys, "--project", root, "deploy", "dev", "--bootstrap")
    assert code == 1
    assert words in err
    assert not (project.root / "cdk-ran").exists()
