"""The environment of a build: variables, credentials, folders, programs, and isolation from the user."""

import os

import boto3
import pytest

from packages.local_cloud.tests.codebuild.conftest import REGION, an_environment, spec, why
from tritonstack.triton.inside.private_root import SHARED_MEMORY
from tritonstack.triton.sandbox import why_no_namespaces


def variables(lines):
    return dict(line.split("=", 1) for line in lines if "=" in line)


def test_codebuild_sets_its_own_variables(account):
    build = account.built("env", "pwd")
    seen = variables(account.said(build))
    project = f"arn:aws:codebuild:{REGION}:{account.id}:project/{account.name}"
    assert seen["CODEBUILD_BUILD_ID"] == build["id"]
    assert seen["CODEBUILD_BUILD_ARN"] == build["arn"]
    assert seen["CODEBUILD_BUILD_NUMBER"] == "1"
    assert seen["CODEBUILD_BUILD_IMAGE"] == build["environment"]["image"]
    assert seen["CODEBUILD_PROJECT_ARN"] == project
    assert seen["CODEBUILD_INITIATOR"] == build["initiator"]
    assert seen["CODEBUILD_BUILD_SUCCEEDING"] == "1"
    assert int(seen["CODEBUILD_START_TIME"]) == int(build["startTime"].timestamp() * 1000)
    assert account.said(build)[-1] == seen["CODEBUILD_SRC_DIR"]


def test_the_users_environment_does_not_leak_into_builds(account, monkeypatch):
    monkeypatch.setenv("A_VARIABLE_OF_THE_USERS", "secret")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "7")
    seen = variables(account.said(account.built("env", "echo stdin=$(cat)")))
    allowed = {"PATH", "LANG", "HOME", "TMPDIR", "PWD", "OLDPWD", "SHLVL", "_", "TRITONSTACK_HOME", "stdin"}
    allowed |= {"http_proxy", "https_proxy", "no_proxy"}
    assert {name for name in seen if not name.startswith(("AWS_", "CODEBUILD_"))} <= allowed
    assert seen["HOME"] != os.environ["HOME"]
    assert seen["stdin"] == ""
    assert {name for name in seen if name.startswith("AWS_")} == {
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_REGION",
        "AWS_DEFAULT_REGION",
        "AWS_ENDPOINT_URL",
        "AWS_EC2_METADATA_DISABLED",
    }
    assert seen["AWS_REGION"] == REGION


def test_a_build_reaches_its_cloud_with_its_role(account):
    build = account.built("env")
    seen = variables(account.said(build))
    sts = boto3.client(
        "sts",
        endpoint_url=seen["AWS_ENDPOINT_URL"],
        region_name=seen["AWS_REGION"],
        aws_access_key_id=seen["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=seen["AWS_SECRET_ACCESS_KEY"],
        aws_session_token=seen["AWS_SESSION_TOKEN"],
    )
    session = build["id"].partition(":")[2]
    role = f"arn:aws:sts::{account.id}:assumed-role/builds/AWSCodeBuild-{session}"
    assert sts.get_caller_identity()["Arn"] == role


def test_a_build_with_a_missing_role_fails(account):
    gone = f"arn:aws:iam::{account.id}:role/gone"
    build = account.built("echo never", serviceRoleOverride=gone)
    assert build["buildStatus"] == "FAILED"
    code, words = why(build, "PROVISIONING")
    assert code == "ACCESS_DENIED"
    assert gone in words


def test_request_overrides_project_overrides_buildspec(account):
    text = {**spec('echo "$A $B $C"'), "env": {"variables": {"A": "spec", "B": "spec", "C": "spec"}}}
    given = [{"name": name, "value": "project"} for name in ("B", "C")]
    account.project(text, environment=an_environment(environmentVariables=given))
    build = account.start(environmentVariablesOverride=[{"name": "C", "value": "request"}])
    assert account.said(account.ended(build)) == ["spec project request"]
    shown = account.look(build)["environment"]["environmentVariables"]
    assert {item["name"]: item["value"] for item in shown} == {"B": "project", "C": "request"}
    assert {item["type"] for item in shown} == {"PLAINTEXT"}


@pytest.mark.skipif(why_no_namespaces() is not None, reason="this system forbids namespaces")
def test_python_and_home_are_at_the_images_paths(account):
    code = "import sys, boto3; print(sys.prefix)"
    build = account.built(f'/opt/builder/bin/python -c "{code}"', "cd /home/builder && touch mine && ls")
    assert account.said(build) == ["/opt/builder", "mine", "state"]
    log = "\n".join(account.log(build))
    assert f" image {build['environment']['image']} with" in log
    assert "/opt/builder" in log


@pytest.mark.skipif(why_no_namespaces() is not None, reason="this system forbids namespaces")
def test_a_build_has_its_own_processes_and_shared_memory(account):
    build = account.built("ls /proc | grep -cE '^[0-9]+$'", f"touch {SHARED_MEMORY}/left-by-a-build")
    assert int(account.said(build)[0]) < 8
    assert not os.path.exists(f"{SHARED_MEMORY}/left-by-a-build")


def test_a_builds_folder_is_removed(account):
    build = account.built("echo $CODEBUILD_SRC_DIR", "mkdir -p a/b; touch a/b/c; chmod 500 a")
    (folder,) = account.said(build)
    assert not os.path.exists(folder)
    assert not list(account.services.folder.glob(build["id"].partition(":")[2]))


def test_emulated_settings_match_the_builder_image():
    """The emulated settings match containers/builder."""
    from tritonstack.base.paths import find_project
    from tritonstack_local.codebuild.machines import processes

    dockerfile = (find_project().containers_dir / "builder" / "Dockerfile").read_text()
    assert f"-m venv {processes.PYTHON} " in dockerfile
    assert f"ENV TRITONSTACK_HOME={processes.STATE}" in dockerfile
    assert "/bin/sh builder" in dockerfile
