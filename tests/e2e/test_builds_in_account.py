"""`tritonstack build` in an account, the whole road: synth, deploy, image, jobs, artifacts, lock.

moto plays the account but for CodeBuild, whose builds run here, with the commands of the deployed projects.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.cloudformation import parsing
from moto.cloudformation.models import ChangeSet
from moto.server import ThreadedMotoServer

from catalog.loading import load_workspace
from catalog.locks import Lock, load_lock
from stacks.constructs.build_source import READ_BY_BUILDS
from tests.e2e.conftest import REPOSITORY, Site, furnished_site
from tests.e2e.played_codebuild import PlayedCodeBuild, serve
from tests.model_build.given_models import PYTHON_MODEL
from tests.model_build.tiny import save_tiny_model, write_model

pytestmark = pytest.mark.e2e

ACCOUNT = "123456789012"
ENVIRONMENT = f"""\
name: dev
account: "{ACCOUNT}"
region: us-east-1
triton_release: "25.04"
removal: destroy
endpoints:
  search: {{kind: ensemble, model: tiny, instance_type: ml.c7i.xlarge}}
  twice: {{kind: single, model: own, instance_type: ml.c7i.xlarge}}
  hopeless: {{kind: ensemble, model: broken, instance_type: ml.c7i.xlarge}}
"""
OWN = """\
name: own
description: Twice its input.
recipe: {kind: python}
test_inputs: [{inputs: {x: [1.0, 2.0]}, outputs: {y: [2.0, 4.0]}}]
"""
_apply_in_moto = ChangeSet.apply
_create_in_moto = parsing.parse_and_create_resource
STACK = "tritonstack-dev-build"


@dataclass(frozen=True)
class Account:
    """A site, and the account that its environment lives in."""

    site: Site
    codebuild: PlayedCodeBuild

    def client(self, service: str) -> Any:
        variables = self.site.variables
        return boto3.client(
            service, endpoint_url=variables["AWS_ENDPOINT_URL"], region_name=variables["AWS_DEFAULT_REGION"]
        )

    @property
    def lock(self) -> Lock:
        return load_lock(self.site.project.lock_file("dev")).record


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    moto = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    moto.start()
    _, port = moto.get_host_and_port()
    variables = {
        "AWS_ENDPOINT_URL": f"http://localhost:{port}",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
    }
    with pytest.MonkeyPatch.context() as patched:
        for name, value in variables.items():
            patched.setenv(name, value)
        patched.setattr(ChangeSet, "apply", _apply)
        patched.setattr(parsing, "parse_and_create_resource", _create_untagged)
        root = tmp_path_factory.mktemp("account")
        site = _site(root / "site")
        codebuild = PlayedCodeBuild(STACK, root / "played", variables)
        (root / "played" / "state").mkdir()
        (root / "played" / "state" / "server").symlink_to(REPOSITORY.server_dir)
        server = serve(codebuild)
        site.variables.update(variables)
        site.variables["AWS_ENDPOINT_URL_CODEBUILD"] = f"http://127.0.0.1:{server.server_port}"
        found = Account(site, codebuild)
        _bootstrap(found)
        yield found
        codebuild.wait()
        server.shutdown()
    moto.stop()


def _create_untagged(name: str, resource: dict[str, Any], *others: Any, **more: Any) -> Any:
    """moto's CloudFormation stumbles over tags of keys and parameters."""
    properties = {key: value for key, value in resource.get("Properties", {}).items() if key != "Tags"}
    return _create_in_moto(name, resource | {"Properties": properties}, *others, **more)


def _apply(change: ChangeSet) -> None:
    """moto forgets the outputs of a stack that a change set makes."""
    _apply_in_moto(change)
    change.stack.template_dict = change.template_dict
    change.stack.output_map = change.stack._create_output_map()


def _site(root: Path) -> Site:
    """A project of three models: one that nobody doubts, one with code of its own, one that is damaged."""
    for name in READ_BY_BUILDS:
        if name != "models":
            shutil.copytree(REPOSITORY.root / name, root / name)
    site = furnished_site(root, shared=("server",))
    models = root / "models"
    write_model(models / "tiny", source="file://weights")
    save_tiny_model(models / "tiny" / "weights")
    write_model(models / "broken", name="broken", source="file://weights")
    shutil.copytree(models / "tiny" / "weights", models / "broken" / "weights")
    (models / "broken" / "weights" / "model.safetensors").write_bytes(b"cut off")
    (models / "own").mkdir()
    (models / "own" / "model.yaml").write_text(OWN)
    (models / "own" / "model.py").write_text(PYTHON_MODEL.format(imports="", body="y = x * 2"))
    (root / "environments").mkdir()
    (root / "environments" / "dev.yaml").write_text(ENVIRONMENT)
    return site


def _bootstrap(account: Account) -> None:
    """What the CDK asks of an account that it has prepared."""
    account.client("ssm").put_parameter(Name="/cdk-bootstrap/hnb659fds/version", Value="30", Type="String")
    account.client("s3").create_bucket(Bucket=f"cdk-hnb659fds-assets-{ACCOUNT}-us-east-1")


def read_until(process: subprocess.Popen[str], count: int, words: str) -> str:
    """What a command says, up to the line in which the words come for that time."""
    said = ""
    assert process.stdout is not None
    for line in process.stdout:
        said += line
        if said.count(words) == count:
            return said
    pytest.fail(said)


def test_from_an_empty_account_to_a_lock(account: Account) -> None:
    """Interrupted once; the second call attaches, takes what was made, and tells of the one that failed."""
    site, codebuild = account.site, account.codebuild
    codebuild.held.clear()
    process = site.start("tritonstack", "build", "dev")
    first = read_until(process, 3, " for cpu: started tritonstack-dev-build-cpu:")
    process.send_signal(signal.SIGINT)
    first += process.communicate(timeout=60)[0]
    assert process.returncode == 1
    assert "✓ deploying tritonstack-dev-build and what it stands on" in first
    assert "✓ building the builder's image 25.04-py3-cpu-" in first
    assert first.count("error: ") == 1
    assert "error: you have stopped watching; in the account this goes on: broken, own, tiny" in first
    assert "Traceback" not in first
    assert account.lock.models == {}

    process = site.start("tritonstack", "build", "dev")
    second = read_until(process, 3, " for cpu: attached to tritonstack-dev-build-cpu:")
    codebuild.held.set()
    second += process.communicate(timeout=240)[0]
    assert process.returncode == 1
    assert "deploying" not in second
    assert len(codebuild.started) == 4
    assert "✗ building broken for cpu in CodeBuild" in second
    assert second.count("error: ") == 1
    assert "model.safetensors" in second.partition("error: ")[2]
    assert set(account.lock.models) == {"own", "tiny"}


def test_what_was_built_lies_where_the_lock_says(account: Account) -> None:
    bucket = load_workspace(account.site.project, "dev").spec.artifact_bucket
    listed = account.client("s3").list_objects_v2(Bucket=bucket)["Contents"]
    keys = {item["Key"]: item["Size"] for item in listed}
    for model in ("own", "tiny"):
        artifact = account.lock.models[model]["cpu"]
        prefix = f"models/{model}/{artifact.digest}"
        assert keys.pop(f"{prefix}/model.tar.gz") == artifact.archive_bytes
        assert keys.pop(f"{prefix}/manifest.json")
    assert sorted(key.rpartition("/")[0] for key in keys) == ["models/own/builds", "models/tiny/builds"]


def test_code_of_a_models_own_ran_with_the_role_that_the_stack_made_for_it(account: Account) -> None:
    roles = {
        variable["value"]: started.get("serviceRoleOverride")
        for started in account.codebuild.started
        for variable in started["environmentVariablesOverride"]
        if variable["name"] == "MODEL"
    }
    parameter = account.client("ssm").get_parameter(Name="/tritonstack-dev/build-roles/own")["Parameter"]
    assert roles == {"broken": None, "own": parameter["Value"], "tiny": None}
    names = {role["Arn"] for role in account.client("iam").list_roles()["Roles"]}
    assert parameter["Value"] in names


def test_the_next_call_builds_only_what_is_missing(account: Account) -> None:
    broken, *others = account.site.tritonstack("build", "dev", "--explain").splitlines()
    where = "to build in CodeBuild, project tritonstack-dev-build-cpu"
    assert broken == f"broken for cpu: {where}: never built for cpu"
    assert [line.partition(",")[0] for line in others] == [
        "own for cpu: up to date",
        "tiny for cpu: up to date",
    ]
    said = account.site.tritonstack("build", "dev", "own", "tiny")
    assert "up to date" in said
    assert len(account.codebuild.started) == 4
