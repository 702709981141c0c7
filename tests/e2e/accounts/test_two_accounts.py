"""From dev to prod through git, in two accounts: a model is promoted, a damaged one is stopped, and one with
wrong answers is found and rolled back. In the end dev leaves nothing, and prod exactly the data it retains.

These are the guards against data loss, so they run with every change. The tests of this file run in order and
depend on each other.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.e2e.conftest import Site, furnished_site
from tests.projects import edit
from tritonstack.base.files import short_digest
from tritonstack.base.naming import artifact_prefix
from tritonstack.client import EndpointClient
from tritonstack.files.records.locks import load_lock
from tritonstack.operate.destroy.deletion import empty_bucket
from tritonstack.operate.shared.aws import Cloud

pytestmark = pytest.mark.e2e

DEV, PROD = "000000000000", "000000000001"
ENVIRONMENT = """\
name: {name}
account: "{account}"
region: us-east-1
triton_release: "25.04"
removal: {removal}
{rules}endpoints:
  prices:
    kind: single
    model: price
    instance_type: ml.c7i.large
    rollout: {{strategy: all-at-once}}
    environment: {{{variables}}}
"""
PROD_RULES = """\
promotion: {source: dev, verified: true}
"""
PROD_VARIABLES = 'TAX_RATE: "0.25"'
"""Left from another day; the first version of the model does not look at it."""
MODEL = """\
name: price
description: What an item costs with its tax.
recipe: {kind: python, code: model.py}
test_inputs:
  - inputs: {net: [10.0]}
    outputs: {gross: [12.0]}
"""
CODE = """\
import os

import triton_python_backend_utils as pb_utils

RATE = 0.2


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            net = pb_utils.get_input_tensor_by_name(request, "net").as_numpy()
            gross = (net * (1 + RATE)).astype(net.dtype)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("gross", gross)]))
        return responses
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A repository with a model of a few lines and two environments."""
    root = tmp_path_factory.mktemp("site")
    here = furnished_site(root, shared=("server",))
    (root / ".gitignore").write_text(".tritonstack\nnode_modules\n")
    (root / "models" / "price").mkdir(parents=True)
    (root / "models" / "price" / "model.yaml").write_text(MODEL)
    (root / "models" / "price" / "model.py").write_text(CODE)
    (root / "environments").mkdir()
    for name, account, removal, rules, variables in (
        ("dev", DEV, "destroy", "", ""),
        ("prod", PROD, "retain", PROD_RULES, PROD_VARIABLES),
    ):
        here.project.environment_file(name).write_text(
            ENVIRONMENT.format(name=name, account=account, removal=removal, rules=rules, variables=variables)
        )
    here.git("init", "--quiet", "--initial-branch=main")
    commit(here, "What people wrote")
    yield here
    for account in (DEV, PROD):
        here.tritonstack("down", "--account", account)


def commit(site: Site, subject: str) -> str:
    site.git("add", "--all")
    site.git("commit", "--quiet", "--message", subject)
    return site.git("rev-parse", "HEAD").strip()


def gross(site: Site, environment: str) -> float:
    """The price of ten including tax, as an environment's endpoint answers it."""
    client = EndpointClient(
        endpoint_name=site.spec_of(environment).endpoint_name("prices"),
        runtime=site.cloud_of(environment).client("sagemaker-runtime"),
    )
    answer = client.infer({"net": np.array([[10.0]], dtype=np.float32)})["gross"]
    return round(float(answer[0, 0]), 4)


def digest(site: Site, environment: str) -> str:
    return load_lock(site.project.lock_file(environment)).record.models["price"]["cpu"].digest


def objects(site: Site, environment: str, model_digest: str) -> set[str]:
    bucket, prefix = site.spec_of(environment).artifact_bucket, artifact_prefix("price", model_digest)
    found = site.cloud_of(environment).client("s3").list_objects_v2(Bucket=bucket, Prefix=prefix)
    return {item["Key"].removeprefix(f"{prefix}/") for item in found.get("Contents", ())}


def test_suggested_commands_lead_to_a_deployed_model(site: Site) -> None:
    """From a fresh clone to an answer with nothing but what the last command suggests."""
    site.tritonstack("up", "--detach", "--account", PROD)
    build, deploy = site.hints("tritonstack up --detach")
    assert site.address_of("dev").port != site.address_of("prod").port
    *commit_build, same_deploy = site.hints(build)
    assert same_deploy == deploy
    site.as_person(" && ".join(commit_build))
    (verify,) = site.hints(deploy)
    assert verify == "tritonstack verify dev"
    assert gross(site, "dev") == 12.0


def test_the_cloud_listens_on_loopback_only(site: Site) -> None:
    port = f"{site.address_of('dev').port:04X}"
    listening = [
        line.split()[1]
        for table in ("/proc/net/tcp", "/proc/net/tcp6")
        for line in Path(table).read_text().splitlines()[1:]
        if line.split()[3] == "0A" and line.split()[1].endswith(f":{port}")
    ]
    assert listening
    loopback = ("0100007F:", "00000000000000000000000001000000:")
    assert all(address.startswith(loopback) for address in listening)


def test_suggested_commands_lead_to_a_promotion(site: Site) -> None:
    (dry_run,) = site.hints("tritonstack verify dev")
    (promote,) = site.hints(dry_run)
    output = site.as_person(promote)
    site.as_person("\n".join(("set -e", *re.findall(r"^  (git .*)$", output, re.MULTILINE))))
    assert site.git("status", "--porcelain") == ""
    assert digest(site, "prod") == digest(site, "dev")
    site.as_person("\n".join(("set -e", *re.findall(r"`(tritonstack .*?)`", output.splitlines()[-1]))))
    assert gross(site, "prod") == 12.0


def test_locks_match_their_accounts(site: Site) -> None:
    site.tritonstack("validate", "--online")


def test_a_second_promotion_of_the_same_changes_nothing(site: Site) -> None:
    locked = site.project.lock_file("prod").read_text()
    site.tritonstack("promote", "dev", "prod")
    assert site.project.lock_file("prod").read_text() == locked


def test_unverified_artifact_fails_the_gate(site: Site) -> None:
    code = site.project.root / "models/price/model.py"
    edit(code, "RATE = 0.2\n", 'RATE = float(os.environ.get("TAX_RATE", "0.2"))\n')
    edit(code, "import triton", "import os\n\nimport triton")
    site.tritonstack("build", "dev")
    commit(site, "The tax rate can be set")
    output = site.tritonstack("promote", "dev", "prod", exit_code=1)
    assert "verified" in output
    assert digest(site, "prod") != digest(site, "dev")
    assert objects(site, "prod", digest(site, "dev")) == set()


def test_damaged_artifact_fails_the_gate(site: Site) -> None:
    """Deployed and verified in dev; then its bytes change in dev's bucket."""
    site.tritonstack("deploy", "dev")
    site.tritonstack("verify", "dev")
    new, locked = digest(site, "dev"), site.project.lock_file("prod").read_text()
    s3, bucket = site.cloud_of("dev").client("s3"), site.spec_of("dev").artifact_bucket
    key = f"{artifact_prefix('price', new)}/model.tar.gz"
    whole = s3.get_object(Bucket=bucket, Key=key)
    body = whole["Body"].read()
    s3.put_object(Bucket=bucket, Key=key, Body=body[:-1] + b"?", Metadata=whole["Metadata"])
    shutil.rmtree(site.project.artifacts_dir)
    output = site.tritonstack("promote", "dev", "prod", exit_code=1)
    assert short_digest(new) in output
    assert objects(site, "prod", new) == set()
    assert site.project.lock_file("prod").read_text() == locked
    s3.put_object(Bucket=bucket, Key=key, Body=body, Metadata=whole["Metadata"])


def test_valid_artifact_with_wrong_answers_is_detected(site: Site) -> None:
    """It now reads a variable, and prod already has one of that name."""
    site.tritonstack("promote", "dev", "prod")
    commit(site, "Promote the second version")
    site.tritonstack("deploy", "prod")
    output = site.tritonstack("verify", "prod", exit_code=1)
    assert "gross" in output
    assert gross(site, "prod") == 12.5


def test_one_command_rolls_it_back(site: Site) -> None:
    output = site.tritonstack("rollback", "prod", "prices")
    assert digest(site, "dev") not in output or "goes back" in output
    assert gross(site, "prod") == 12.0
    commit(site, "Back to the first version")
    site.tritonstack("verify", "prod")


def test_history_lists_all_events(site: Site) -> None:
    kinds = [
        (entry["environment"], entry["kind"])
        for artifact in site.asked("history", "price")["artifacts"]
        for entry in artifact["entries"]
    ]
    for wanted in (
        ("dev", "built"),
        ("dev", "deployed"),
        ("dev", "verified"),
        ("prod", "promoted"),
        ("prod", "deployed"),
        ("prod", "verified"),
        ("prod", "refuted"),
        ("prod", "rolled-back"),
    ):
        assert wanted in kinds, wanted
    site.tritonstack("status")


def test_destroy_of_dev_leaves_nothing(site: Site) -> None:
    site.tritonstack("destroy", "dev", "--yes")
    site.tritonstack("audit", "dev", "--gone")
    assert remaining(site, "dev") == []


def test_prod_is_destroyed_only_after_file_and_stack_protection_are_removed(site: Site) -> None:
    site.tritonstack("destroy", "prod", "--yes", "--confirm", "prod", exit_code=2)
    edit(site.project.environment_file("prod"), "removal: retain", "removal: retain\nprotected: false")
    commit(site, "prod may go")
    site.tritonstack("destroy", "prod", "--yes", "--confirm", "prod", exit_code=2)  # not deployed yet
    site.tritonstack("deploy", "prod")
    site.tritonstack("destroy", "prod", "--yes", exit_code=2)  # and nobody has written its name
    assert gross(site, "prod") == 12.0


def test_prod_retains_its_data_and_lists_all_of_it(site: Site) -> None:
    plan = site.asked("destroy", "prod", "--dry-run")
    assert (plan["buckets"], plan["repositories"], plan["keys"]) == ([], [], [])
    retained = resources(site.asked("destroy", "prod", "--yes", "--confirm", "prod")["retained"])
    assert retained == resources(plan["retained"])
    assert {kind for kind, _ in retained} == {
        "AWS::ECR::Repository",
        "AWS::KMS::Key",
        "AWS::Logs::LogGroup",
        "AWS::S3::Bucket",
    }
    audit = site.asked("audit", "prod", "--gone", exit_code=1)["prod"]
    assert resources(audit["resources"]) == retained
    # The inventory lists no keys by themselves.
    assert {item["id"] for item in remaining(site, "prod")} == {
        identifier for kind, identifier in retained if kind != "AWS::KMS::Key"
    }
    assert objects(site, "prod", digest(site, "prod")) != set()


def test_retained_data_of_prod_blocks_a_new_deploy(site: Site) -> None:
    output = site.tritonstack("deploy", "prod", exit_code=1)
    assert site.spec_of("prod").artifact_bucket in output


def test_prod_is_gone_after_its_data_is_deleted_by_hand(site: Site) -> None:
    cloud = site.cloud_of("prod")
    for item in remaining(site, "prod"):
        delete(cloud, item["service"], item["id"])
    (key,) = site.asked("audit", "prod", exit_code=1)["prod"]["resources"]
    cloud.client("kms").schedule_key_deletion(KeyId=key["id"], PendingWindowInDays=7)
    site.tritonstack("audit", "prod", "--gone")
    assert remaining(site, "prod") == []


def remaining(site: Site, environment: str) -> list[dict[str, Any]]:
    """Return what the local cloud itself still has of an environment."""
    base = site.spec_of(environment).base
    return [item for item in site.inventory(environment) if base in json.dumps(item)]


def resources(items: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return sorted((item["type"], item["id"]) for item in items)


def delete(cloud: Cloud, service: str, name: str) -> None:
    client = cloud.client(service)
    if service == "s3":
        empty_bucket(cloud, name)
        client.delete_bucket(Bucket=name)
    elif service == "ecr":
        client.delete_repository(repositoryName=name, force=True)
    else:
        client.delete_log_group(logGroupName=name)
