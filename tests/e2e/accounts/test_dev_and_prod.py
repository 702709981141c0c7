"""The repository's own dev and prod in two accounts: everything deployed is deleted again, except what prod
retains, which is listed completely.

Changed are the lines that say "put your own account here" and how long prod waits. The tests of this file run
in order and stand on each other: each is one chapter.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.conftest import Site
from tests.projects import edit
from tritonstack.operations.aws import Cloud
from tritonstack.operations.buckets import empty_bucket
from tritonstack.records.locks import load_lock

pytestmark = pytest.mark.soak

ACCOUNTS = {"dev": "000000000003", "prod": "000000000004"}
WRITTEN = {"dev": "111111111111", "prod": "222222222222"}


@pytest.fixture(scope="module")
def two(site: Site) -> Iterator[Site]:
    """The repository in git, with dev and prod in local accounts."""
    for environment, account in ACCOUNTS.items():
        edit(site.project.environment_file(environment), WRITTEN[environment], account)
    site.project.lock_file("prod").unlink()
    (site.project.root / ".gitignore").write_text(".tritonstack\nnode_modules\n")
    site.git("init", "--quiet", "--initial-branch=main")
    try:
        for environment, account in ACCOUNTS.items():
            region = site.spec_of(environment).region
            site.tritonstack("up", "--detach", "--account", account, "--region", region)
        yield site
    finally:
        for account in ACCOUNTS.values():
            site.tritonstack("down", "--account", account)


def commit(site: Site, subject: str) -> None:
    site.git("add", "--all")
    site.git("commit", "--quiet", "--message", subject)


def left(site: Site, environment: str) -> list[dict[str, Any]]:
    """Return what the cloud itself has of an environment."""
    base = site.spec_of(environment).base
    return [item for item in site.inventory(environment) if base in json.dumps(item)]


def test_dev_is_deployed_and_verified(two: Site) -> None:
    locked = two.project.lock_file("dev").read_text()
    two.tritonstack("build", "dev", "--no-publish")
    assert two.project.lock_file("dev").read_text() == locked
    commit(two, "dev and prod in accounts of ours")
    two.tritonstack("deploy", "dev", "--bootstrap")
    two.tritonstack("verify", "dev")


def test_prod_waits_for_the_configured_soak_time(two: Site) -> None:
    output = two.tritonstack("promote", "dev", "prod", "--bootstrap", exit_code=1)
    assert "24" in output
    assert "soaked" in output
    assert not two.project.lock_file("prod").exists()


def test_prod_gets_the_artifacts_of_dev(two: Site) -> None:
    edit(two.project.environment_file("prod"), "soaked_hours: 24", "soaked_hours: 0")
    commit(two, "Today prod does not wait")
    two.tritonstack("promote", "dev", "prod", "--bootstrap")
    ours, theirs = (load_lock(two.project.lock_file(name)).record for name in ACCOUNTS)
    assert ours.models["minilm-embedding"]["cpu"].digest == theirs.models["minilm-embedding"]["cpu"].digest
    commit(two, "Promote minilm-embedding")
    two.tritonstack("deploy", "prod")
    two.tritonstack("verify", "prod")


def test_destroy_of_dev_leaves_nothing(two: Site) -> None:
    two.tritonstack("destroy", "dev", "--yes")
    two.tritonstack("audit", "dev", "--gone")
    assert left(two, "dev") == []


def test_prod_is_protected_because_it_retains_data(two: Site) -> None:
    output = two.tritonstack("destroy", "prod", "--yes", "--confirm", "prod", exit_code=2)
    assert "is protected by" in output


def test_prod_retains_data_and_reports_it(two: Site) -> None:
    edit(two.project.environment_file("prod"), "removal: retain", "removal: retain\nprotected: false")
    commit(two, "prod may go")
    two.tritonstack("deploy", "prod")
    foreseen = two.asked("destroy", "prod", "--dry-run")
    assert (foreseen["buckets"], foreseen["repositories"], foreseen["keys"]) == ([], [], [])
    destroyed = two.asked("destroy", "prod", "--yes", "--confirm", "prod")
    kept = resources(destroyed["retained"])
    assert kept == resources(foreseen["retained"])
    assert {kind for kind, _ in kept} == {
        "AWS::ECR::Repository",
        "AWS::KMS::Key",
        "AWS::Logs::LogGroup",
        "AWS::S3::Bucket",
    }
    report = two.asked("audit", "prod", "--gone", exit_code=1)["prod"]
    assert resources(report["resources"]) == kept
    # The inventory lists no keys by themselves.
    bearing_names = {identifier for kind, identifier in kept if kind != "AWS::KMS::Key"}
    assert {item["id"] for item in left(two, "prod")} == bearing_names


def test_retained_data_of_prod_blocks_a_new_deploy(two: Site) -> None:
    output = two.tritonstack("deploy", "prod", exit_code=1)
    assert "tritonstack-prod-artifacts-" in output
    assert "already exists outside this stack" in output


def test_prod_is_gone_after_retained_data_is_deleted(two: Site) -> None:
    cloud = two.cloud_of("prod")
    for item in left(two, "prod"):
        delete(cloud, item["service"], item["id"])
    (key,) = two.asked("audit", "prod", exit_code=1)["prod"]["resources"]
    cloud.client("kms").schedule_key_deletion(KeyId=key["id"], PendingWindowInDays=7)
    two.tritonstack("audit", "prod", "--gone")
    assert left(two, "prod") == []


def resources(told: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return sorted((item["type"], item["id"]) for item in told)


def delete(cloud: Cloud, service: str, name: str) -> None:
    """Delete everything by hand."""
    client = cloud.client(service)
    if service == "s3":
        empty_bucket(cloud, name)
        client.delete_bucket(Bucket=name)
    elif service == "ecr":
        client.delete_repository(repositoryName=name, force=True)
    else:
        client.delete_log_group(logGroupName=name)
