"""`tritonstack rollback`: the lock, the bucket, the deploy, and resuming after a kill."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import boto3
import pytest

from tests.cli.test_messages import outcome
from tests.files.records.test_locks import BUILT
from tests.git import Repository
from tests.manifests import manifest
from tests.projects import edit
from tritonstack.base.naming import artifact_prefix
from tritonstack.base.paths import Project
from tritonstack.files.loading import load_workspace
from tritonstack.files.records.events import Event
from tritonstack.files.records.lock_writing import add_to_lock
from tritonstack.files.records.locks import load_lock
from tritonstack.files.records.manifests import DIGEST_NOTE
from tritonstack.operate.deploy.switching import Switch
from tritonstack.operate.rollback import rollback as workflow
from tritonstack.operate.shared.aws import cloud_of
from tritonstack.operate.shared.events import read_events
from tritonstack.operate.shared.revisions import Revision
from tritonstack.operate.verify.checks import Check
from tritonstack.operate.verify.verdicts import EndpointVerdict, Verdict


class Dev:
    """A deployed environment whose lock named 11…, then 22…; deploys are only counted."""

    def __init__(self, project: Project, number: str) -> None:
        edit(project.environment_file("dev"), "1" * 12, number)
        self.project, self.spec = project, load_workspace(project, "dev").spec
        self.s3 = boto3.client("s3", region_name="us-east-1")
        self.s3.create_bucket(Bucket=self.spec.artifact_bucket)
        enabled = {"Status": "Enabled"}
        self.s3.put_bucket_versioning(Bucket=self.spec.artifact_bucket, VersioningConfiguration=enabled)
        self.repository = Repository(project.root)
        for digit in ("11", "22"):
            self.build(digit)
        self.deployed: list[tuple[str, tuple[str, ...]]] = []
        self.right = True
        self.fails: Callable[[], None] = lambda: None

    def build(self, digit: str) -> None:
        artifact = manifest("minilm", digest=digit * 32, spec_hash="77" * 32)
        for name, body in (("model.tar.gz", "x"), ("manifest.json", artifact.to_json())):
            self.s3.put_object(
                Bucket=self.spec.artifact_bucket,
                Key=f"{artifact_prefix('minilm', artifact.digest)}/{name}",
                Body=body,
                Metadata={DIGEST_NOTE: artifact.digest},
            )
        add_to_lock(self.project.lock_file("dev"), [artifact], built=BUILT)
        self.repository.commit(digit)

    def deploy(
        self, _state: Any, workspace: Any, _cloud: Any, *, bootstrap: bool, only: tuple[str, ...]
    ) -> None:
        self.fails()
        assert not bootstrap
        digest = workspace.lock.record.models["minilm"]["cpu"].digest
        self.deployed.append((digest[:2], only))

    def verify(self, _state: Any, workspace: Any, _cloud: Any, *, endpoints: tuple[str, ...]) -> Verdict:
        check = Check("answers", failures=() if self.right else ("0.5 instead of 0.25",))
        verdicts = [EndpointVerdict(name, workspace.spec.endpoint_name(name), (check,)) for name in endpoints]
        return Verdict("dev", Revision(None), tuple(verdicts), tested=True)

    def locked(self) -> str:
        return load_lock(self.project.lock_file("dev")).record.models["minilm"]["cpu"].digest[:2]

    def events(self) -> list[Event]:
        return read_events(cloud_of(self.spec, variables={}), self.spec.artifact_bucket)


@pytest.fixture
def dev(project, account, monkeypatch):
    dev = Dev(project, account)
    monkeypatch.setattr(workflow, "deploy_workspace", dev.deploy)
    monkeypatch.setattr(workflow, "verify_workspace", dev.verify)
    return dev


def rollback(
    capsys: pytest.CaptureFixture[str], dev: Dev, *arguments: str, endpoint: str = "search"
) -> tuple[int, str, str]:
    return outcome(capsys, dev.project, "rollback", "dev", endpoint, *arguments)


def test_rollback_writes_the_lock_deploys_and_is_recorded(dev, capsys):
    code, out, err = rollback(capsys, dev)
    assert code == 0
    assert "search was rolled" in out
    assert "minilm for cpu: 222222222222 -> 111111111111" in out
    assert "environments/dev.lock.yaml" in err
    assert (dev.locked(), dev.deployed) == ("11", [("11", ("search",))])
    (event,) = dev.events()
    assert (event.kind, event.endpoints) == ("rolled-back", ("search",))
    assert [artifact.digest[:2] for artifact in event.artifacts] == ["11"]
    assert "222222222222 -> 111111111111" in event.note
    entry = load_lock(dev.project.lock_file("dev")).record.models["minilm"]["cpu"]
    assert entry.rolled_back.instead_of == "22" * 32
    assert outcome(capsys, dev.project, "validate", "dev")[0] == 0


def test_dry_run_reports_it_and_changes_nothing(dev, capsys):
    code, out, _ = rollback(capsys, dev, "--dry-run")
    assert code == 0
    assert "would be rolled" in out
    assert (dev.locked(), dev.deployed, dev.events()) == ("22", [], [])


@pytest.mark.parametrize("committed", [False, True])
def test_repeated_rollback_changes_nothing(dev, capsys, committed):
    dev.build("33")
    rollback(capsys, dev)
    if committed:
        dev.repository.commit("went back")
    before = dev.project.lock_file("dev").read_bytes()
    code, _, err = rollback(capsys, dev)
    assert code == 0
    assert "further back: --to" in err
    assert dev.project.lock_file("dev").read_bytes() == before
    assert (len(dev.deployed), len(dev.events())) == (1, 1)


@pytest.mark.parametrize(
    "place", ["replace_entries", "load_workspace", "deploy", "verify_workspace", "record_rollback"]
)
@pytest.mark.parametrize("committed", [False, True])
def test_command_resumes_after_a_kill_at_any_point(dev, capsys, monkeypatch, place, committed):
    """Kill before each of these, with and without a commit of the lock in between."""

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        if place == "deploy":
            broken.setattr(dev, "fails", killed)
        elif place == "load_workspace":
            loaded: list[Any] = []

            def second_time(*arguments: Any) -> Any:
                if loaded:
                    killed()
                loaded.append(load_workspace(*arguments))
                return loaded[0]

            broken.setattr(workflow, place, second_time)
        else:
            broken.setattr(workflow, place, killed)
        assert rollback(capsys, dev)[0] == 1
    if committed:
        dev.repository.commit("in between")
    code, _, _ = rollback(capsys, dev)
    assert (code, dev.locked()) == (0, "11")
    assert dev.deployed[-1] == ("11", ("search",))
    assert [event.kind for event in dev.events()] == ["rolled-back"]


@pytest.mark.parametrize("deleted", [("manifest.json", "model.tar.gz"), ("model.tar.gz",)])
def test_deleted_artifacts_are_restored_first(dev, capsys, deleted):
    """The lifecycle rule may have deleted the archive and not yet its manifest."""
    prefix = artifact_prefix("minilm", "11" * 32)
    for name in deleted:
        dev.s3.delete_object(Bucket=dev.spec.artifact_bucket, Key=f"{prefix}/{name}")
    code, _, err = rollback(capsys, dev)
    assert code == 0
    assert "after its deletion" in err
    for name in ("manifest.json", "model.tar.gz"):
        dev.s3.head_object(Bucket=dev.spec.artifact_bucket, Key=f"{prefix}/{name}")


@pytest.mark.parametrize("named", [("--name", "pr-1"), ()])
def test_an_instance_is_rolled_back_with_the_lock_that_it_runs(dev, capsys, named):
    text = dev.project.environment_file("dev").read_text().replace("name: dev", "name: ${name}")
    head = "template: {locks: dev, purpose: preview}\nremoval: destroy\n"
    dev.project.template_file("preview").write_text(head + text)
    code, _, err = outcome(capsys, dev.project, "rollback", "preview", "search", *named)
    assert code == 2
    assert "their own: they" in err
    assert "`tritonstack rollback dev`" in err
    assert f"deploy preview --name {named[-1] if named else '<name>'}" in err
    assert (dev.locked(), dev.deployed) == ("22", [])


def test_concurrent_promotion_is_not_overwritten(dev, capsys, monkeypatch):
    def slow(*_: Any, **__: Any) -> bool:
        add_to_lock(dev.project.lock_file("dev"), [manifest("minilm", digest="44" * 32)], built=BUILT)
        return False

    monkeypatch.setattr(workflow, "ensure_available", slow)
    code, _, err = rollback(capsys, dev)
    assert code == 1
    assert "environments/dev.lock.yaml" in err
    assert (dev.locked(), dev.deployed) == ("44", [])


def test_a_rollback_with_wrong_answers_is_not_complete(dev, capsys):
    dev.right = False
    code, _, err = rollback(capsys, dev)
    assert code == 1
    assert "0.5 instead of 0.25" in err
    assert "rolled back, but" in err
    assert (dev.locked(), dev.events()) == ("11", [])
    dev.right = True
    assert rollback(capsys, dev)[0] == 0
    assert [event.kind for event in dev.events()] == ["rolled-back"]


def test_now_switches_before_the_lock_and_the_deploy(dev, capsys, monkeypatch):
    switched: list[tuple[str, str]] = []
    planned = Switch("tritonstack-dev-search", "before")
    monkeypatch.setattr(workflow, "plan_switches", lambda *_: [planned])
    monkeypatch.setattr(
        workflow, "switch_back", lambda _, change, **__: switched.append((change.target, dev.locked()))
    )
    assert rollback(capsys, dev, "--now", "--dry-run")[0] == 0
    assert (switched, dev.locked()) == ([], "22")
    assert rollback(capsys, dev, "--now")[0] == 0
    assert switched == [("before", "22")]
    assert (dev.locked(), dev.deployed) == ("11", [("11", ("search",))])
    assert [event.kind for event in dev.events()] == ["rolled-back"]


@pytest.mark.parametrize("options", [(), ("--dry-run",)])
def test_now_is_rejected_before_anything_changes(dev, capsys, options):
    code, _, err = rollback(capsys, dev, "--now", *options)
    assert code == 1
    assert "TS421" in err
    assert (dev.locked(), dev.deployed) == ("22", [])
