"""Two environments in two accounts simulated by moto; one has artifacts and serves them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from moto.iam.models import iam_backends

from tests.manifests import manifest
from tests.moto_aws import simulated_aws
from tests.projects import ENVIRONMENT, MODEL, edit
from tritonstack.base.naming import artifact_prefix
from tritonstack.base.paths import Project
from tritonstack.files.loading import load_workspace
from tritonstack.files.project.workspace import Workspace
from tritonstack.files.records.events import Event, TouchedArtifact
from tritonstack.files.records.lock_writing import add_to_lock
from tritonstack.files.records.locks import Lock, LockedArtifact, load_lock
from tritonstack.files.records.manifests import LatencyReport, Manifest, ParityReport
from tritonstack.operate.shared.aws import Cloud
from tritonstack.operate.shared.events import read_events, record_event

DEV_ACCOUNT, PROD_ACCOUNT = "111111111111", "222222222222"
PROMOTION = "promotion: {source: dev, verified: false}\n"


def make_manifest(model: str, content: bytes, *, spec_hash: str, **changes: Any) -> Manifest:
    report = ParityReport(stage="served", cases=3, min_cosine=0.9999, max_absolute_error=1e-4)
    usual: dict[str, Any] = {
        "digest": hashlib.sha256(content).hexdigest(),
        "spec_hash": spec_hash,
        "archive_bytes": len(content),
        "unpacked_bytes": len(content),
        "parity": (report,),
        "latency": (LatencyReport(batch=1, requests=100, p50_ms=4.0, p99_ms=9.0),),
    }
    return manifest(model, **{**usual, **changes})


def add_prod(project: Project, promotion: str = PROMOTION, account: str = PROD_ACCOUNT) -> None:
    """Add an environment that promotes from dev."""
    text = ENVIRONMENT.replace("name: dev", "name: prod").replace(DEV_ACCOUNT, account)
    project.environment_file("prod").write_text(text.replace("endpoints:\n", f"{promotion}endpoints:\n"))


def add_model(project: Project, name: str, *environments: str) -> None:
    """Add a model, served by an endpoint of the same name."""
    file = project.model_file(name)
    file.parent.mkdir()
    file.write_text(MODEL.replace("name: minilm", f"name: {name}"))
    endpoint = f"  {name}:\n    kind: ensemble\n    model: {name}\n    instance_type: ml.c7i.xlarge\n"
    for environment in environments:
        edit(project.environment_file(environment), "endpoints:\n", f"endpoints:\n{endpoint}")


class TwoAccounts:
    """A project with dev and prod, each with its bucket."""

    def __init__(self, project: Project) -> None:
        self.project = project
        add_prod(project)
        self.prod = Cloud(PROD_ACCOUNT, "eu-west-1", keys_of(PROD_ACCOUNT))
        self.dev = Cloud(DEV_ACCOUNT, "eu-west-1", keys_of(DEV_ACCOUNT))
        add_reader(self.dev)
        for cloud, name in ((self.dev, "dev"), (self.prod, "prod")):
            cloud.client("s3").create_bucket(
                Bucket=self.bucket(name), CreateBucketConfiguration={"LocationConstraint": "eu-west-1"}
            )

    def workspace(self, environment: str) -> Workspace:
        return load_workspace(self.project, environment)

    def bucket(self, environment: str) -> str:
        return self.workspace(environment).spec.artifact_bucket

    def lock(self, environment: str) -> Lock:
        return load_lock(self.project.lock_file(environment)).record

    def build(self, model: str, content: bytes, **changes: Any) -> Manifest:
        """Write an artifact to dev's bucket and lock, as a build does."""
        spec_hash = self.workspace("dev").hashes[model]
        manifest = make_manifest(model, content, spec_hash=spec_hash, **changes)
        prefix, s3 = artifact_prefix(model, manifest.digest), self.dev.client("s3")
        place = {"Bucket": self.bucket("dev")}
        s3.put_object(
            **place, Key=f"{prefix}/model.tar.gz", Body=content, Metadata={"sha256": manifest.digest}
        )
        s3.put_object(**place, Key=f"{prefix}/manifest.json", Body=manifest.to_json().encode())
        add_to_lock(self.project.lock_file("dev"), [manifest])
        return manifest

    def happened(
        self, kind: str, manifest: Manifest, at: str, *, note: str = "", endpoint: str = "search"
    ) -> None:
        """Write an event of dev."""
        touched = TouchedArtifact(model=manifest.model, target=manifest.target, digest=manifest.digest)
        event = Event.model_validate(
            {
                "kind": kind,
                "environment": "dev",
                "at": at,
                "by": "ann",
                "endpoints": (endpoint,),
                "note": note,
            }
        )
        record_event(self.dev, self.bucket("dev"), event.model_copy(update={"artifacts": (touched,)}))

    def promotions(self) -> list[Event]:
        """Return the promotions recorded in prod's bucket."""
        return [e for e in read_events(self.prod, self.bucket("prod")) if e.kind == "promoted"]

    def held(self, manifest: Manifest) -> bytes | None:
        """Return the archive in prod's bucket, None if there is none."""
        s3, key = self.prod.client("s3"), f"{artifact_prefix(manifest.model, manifest.digest)}/model.tar.gz"
        try:
            body: bytes = s3.get_object(Bucket=self.bucket("prod"), Key=key)["Body"].read()
        except s3.exceptions.NoSuchKey:
            return None
        return body

    def forget(self, manifest: Manifest) -> None:
        """Delete an artifact from prod's bucket."""
        for name in ("manifest.json", "model.tar.gz"):
            self.prod.client("s3").delete_object(
                Bucket=self.bucket("prod"), Key=f"{artifact_prefix(manifest.model, manifest.digest)}/{name}"
            )

    def entry(self, model: str = "minilm", environment: str = "prod") -> LockedArtifact | None:
        return self.lock(environment).models.get(model, {}).get("cpu")

    def second_checkout(self, root: Path) -> TwoAccounts:
        """The same files in another folder, with the same clouds."""
        for file in (*self.project.root.rglob("*.yaml"), self.project.root / "cdk.json"):
            copy = root / file.relative_to(self.project.root)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(file.read_text())
        other = object.__new__(TwoAccounts)
        other.project, other.dev, other.prod = Project(root), self.dev, self.prod
        return other


@contextmanager
def two_accounts(project: Project) -> Iterator[TwoAccounts]:
    """Two accounts for as long as moto simulates them."""
    with simulated_aws():
        yield TwoAccounts(project)


def keys_of(account: str) -> dict[str, str]:
    """Return keys of a user in an account simulated by moto."""
    backend = iam_backends[account]["aws"]
    backend.create_user("eu-west-1", "ann")
    key = backend.create_access_key("ann")
    return {"AWS_ACCESS_KEY_ID": key.access_key_id, "AWS_SECRET_ACCESS_KEY": key.secret_access_key}


def add_reader(dev: Cloud) -> None:
    """Add the role with which prod reads dev, as the delivery stack creates it."""
    trust = {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"AWS": f"arn:aws:iam::{PROD_ACCOUNT}:root"},
                "Action": "sts:AssumeRole",
            }
        ],
    }
    dev.client("iam").create_role(
        RoleName="tritonstack-delivery-dev-promotion-reader", AssumeRolePolicyDocument=json.dumps(trust)
    )
