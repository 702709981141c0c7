"""`tritonstack promote` between two local clouds with two accounts: killed, and concurrent."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Site, furnished_site
from tests.operate.two_accounts import PROMOTION, add_prod, make_manifest
from tests.projects import write_project
from tritonstack.base.naming import artifact_prefix
from tritonstack.base.paths import Project
from tritonstack.files.loading import load_workspace
from tritonstack.files.records.lock_writing import add_to_lock
from tritonstack.files.records.locks import load_lock
from tritonstack.operate.shared.events import read_events

pytestmark = pytest.mark.soak

DEV, PROD = "000000000001", "000000000002"
SIZE = 80 * 2**20
"""Large enough to go up in parts."""
KILLS = 12


class TwoClouds(Site):
    """Dev and prod in their own clouds, each with only its bucket."""

    def bucket(self, environment: str) -> str:
        return self.spec_of(environment).artifact_bucket

    def s3(self, environment: str) -> Any:
        return self.cloud_of(environment).client("s3")

    def publish(self, seed: int) -> str:
        """Write an artifact to dev's bucket and lock; return its digest."""
        content = os.urandom(2**20) * (SIZE // 2**20) + seed.to_bytes(8, "big")
        spec_hash = load_workspace(self.project, "dev").hashes["minilm"]
        manifest = make_manifest("minilm", content, spec_hash=spec_hash)
        prefix, place = artifact_prefix("minilm", manifest.digest), {"Bucket": self.bucket("dev")}
        s3 = self.s3("dev")
        s3.put_object(
            **place, Key=f"{prefix}/model.tar.gz", Body=content, Metadata={"sha256": manifest.digest}
        )
        s3.put_object(**place, Key=f"{prefix}/manifest.json", Body=manifest.to_json().encode())
        add_to_lock(self.project.lock_file("dev"), [manifest])
        return manifest.digest

    def locked(self, root: Path | None = None) -> str | None:
        """Return the digests in prod's lock."""
        project = Project(root) if root else self.project
        entry = load_lock(project.lock_file("prod")).record.models.get("minilm", {}).get("cpu")
        return entry.digest if entry else None

    def held(self, digest: str) -> bool:
        """Return whether prod's bucket has an artifact; its final name never holds anything else."""
        s3, key = self.s3("prod"), f"{artifact_prefix('minilm', digest)}/model.tar.gz"
        try:
            body = s3.get_object(Bucket=self.bucket("prod"), Key=key)["Body"].read()
        except s3.exceptions.NoSuchKey:
            return False
        assert hashlib.sha256(body).hexdigest() == digest
        return True

    def promotions(self) -> list[str]:
        """Return the digests promoted according to prod's events."""
        events = read_events(self.cloud_of("prod"), self.bucket("prod"))
        return [event.artifacts[0].digest for event in events if event.kind == "promoted"]


@pytest.fixture(scope="module")
def clouds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoClouds]:
    root = tmp_path_factory.mktemp("clouds")
    project = write_project(root)
    add_prod(project, PROMOTION, account=PROD)
    dev = project.environment_file("dev")
    dev.write_text(dev.read_text().replace("1" * 12, DEV))
    for file in (dev, project.environment_file("prod")):
        file.write_text(file.read_text().replace("eu-west-1", "us-east-1"))
    site = furnished_site(root, shared=("server",))
    here = TwoClouds(site.project, {"GITHUB_ACTOR": "ann"})
    try:
        for account in (DEV, PROD):
            here.tritonstack("up", "--detach", "--account", account)
        for environment in ("dev", "prod"):
            here.s3(environment).create_bucket(Bucket=here.bucket(environment))
        yield here
    finally:
        for account in (DEV, PROD):
            here.tritonstack("down", "--account", account)


def test_command_resumes_after_kills_at_many_times(clouds: TwoClouds) -> None:
    digest = clouds.publish(0)
    began = time.monotonic()
    clouds.tritonstack("promote", "dev", "prod")
    whole_s = time.monotonic() - began
    assert clouds.promotions() == [digest]

    digest, survived = clouds.publish(1), 0
    for kill in range(KILLS):
        process = clouds.start("tritonstack", "promote", "dev", "prod")
        try:
            process.wait(timeout=whole_s * (kill + 1) / KILLS)
            survived += 1
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        whole = clouds.held(digest)
        assert whole or clouds.locked() != digest
        assert clouds.promotions().count(digest) <= 1
    assert survived < KILLS, "no kill has met a promotion: the test shows nothing"

    clouds.tritonstack("promote", "dev", "prod")
    assert clouds.held(digest)
    assert clouds.locked() == digest
    assert clouds.promotions().count(digest) == 1
    assert clouds.promotions()[-1] == digest
    said = clouds.tritonstack("promote", "dev", "prod")
    assert "environments/prod.lock.yaml is up to date" in said


def test_two_processes_at_once_in_one_checkout(clouds: TwoClouds) -> None:
    digest = clouds.publish(2)
    both = [clouds.start("tritonstack", "--json", "promote", "dev", "prod") for _ in range(2)]
    said = [process.communicate(timeout=600)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert clouds.locked() == digest
    assert clouds.promotions().count(digest) == 1
    assert clouds.tritonstack("validate", "prod")


def test_two_checkouts_at_once(clouds: TwoClouds, tmp_path: Path) -> None:
    digest = clouds.publish(3)
    other = tmp_path / "other"
    subprocess.run(["cp", "-r", "--no-dereference", clouds.project.root, other], check=True)
    variables = {**clouds.variables, "TRITONSTACK_HOME": str(clouds.project.state_dir)}
    both = [
        Site(Project(root), variables | {"GITHUB_ACTOR": who}).start(
            "tritonstack", "--json", "promote", "dev", "prod"
        )
        for root, who in ((clouds.project.root, "ann"), (other, "bob"))
    ]
    said = [process.communicate(timeout=600)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert clouds.locked() == clouds.locked(other) == digest
    assert clouds.held(digest)
    assert clouds.promotions().count(digest) == 2
