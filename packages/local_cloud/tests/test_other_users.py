"""Another user of the machine reaches nothing in a cloud's folder, whatever the cloud does."""

import functools
import io
import json
import os
import pwd
import shutil
import socket
import tarfile
import tempfile
import time
from pathlib import Path

import boto3
import pytest

from tests.python_models import python_model
from tests.triton.conftest import PYTHON_CONFIG
from tritonstack.base.paths import find_project
from tritonstack_local.cloud_folder import private_folder
from tritonstack_local.process import forget, start_detached, stop
from tritonstack_local.settings import CloudSettings
from tritonstack_local.state.folder import ForeignStateError

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user"),
]
NOBODY = pwd.getpwnam("nobody").pw_uid
TRUST = json.dumps({"Version": "2012-10-17", "Statement": []})
IMAGE = "763104351884.dkr.ecr.eu-west-1.amazonaws.com/sagemaker-tritonserver:24.09-py3"
INSTANCE = {"InitialInstanceCount": 1, "InstanceType": "ml.c7i.large"}


@pytest.fixture
def home():
    """A folder that everybody can list and enter, as /srv, /opt, or the home folders of many systems."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        os.chmod(folder, 0o755)  # noqa: S103 - so that only the cloud's own folder protects it
        yield Path(folder)


def reached_by_another_user(folder):
    """Return what another user can list, read, write or connect to, of everything that there is."""
    paths = [folder, *folder.rglob("*")]
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        os.write(writer, json.dumps([str(path) for path in paths if _reaches(path)][:99]).encode())
        os._exit(0)
    os.close(writer)
    with open(reader) as pipe:
        found = json.load(pipe)
    os.waitpid(child, 0)
    return paths, found


def _reaches(path):
    for attempt in (os.listdir, _read, _write, _connect):
        try:
            attempt(path)
        except OSError:
            continue
        return True
    return False


def _read(path):
    os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))


def _write(path):
    os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))


def _connect(path):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))


def archive():
    buffer = io.BytesIO()
    code = python_model("-x")
    with tarfile.open(fileobj=buffer, mode="w:gz") as packed:
        for name, text in (("negate/config.pbtxt", PYTHON_CONFIG), ("negate/1/model.py", code)):
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(text), 0o666
            packed.addfile(member, io.BytesIO(text.encode()))
    return buffer.getvalue()


def until(condition):
    deadline = time.monotonic() + 60
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


def test_nothing_is_reached_after_any_action(home):
    folder = home / "clouds/default"

    def walk(action, *expected):
        paths, found = reached_by_another_user(folder)
        assert found == [], action
        assert {path.name for path in paths} >= set(expected), action

    server_home = find_project(Path(__file__)).state_dir / "server"
    settings = CloudSettings(
        state_dir=folder, account_id="111122223333", region="eu-west-1", server_home=server_home
    )
    variables = start_detached(settings).environment()
    try:
        walk("up", "secret", "aws-profile", "cloud.json", "cloud.log", "state")

        def client(service):
            return boto3.Session().client(
                service,
                endpoint_url=variables["AWS_ENDPOINT_URL"],
                region_name="eu-west-1",
                aws_access_key_id=variables["AWS_ACCESS_KEY_ID"],
                aws_secret_access_key=variables["AWS_SECRET_ACCESS_KEY"],
            )

        s3, codebuild, sagemaker = map(client, ("s3", "codebuild", "sagemaker"))
        role = client("iam").create_role(RoleName="r", AssumeRolePolicyDocument=TRUST)["Role"]["Arn"]
        s3.create_bucket(Bucket="models", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
        s3.put_object(Bucket="models", Key="negate.tar.gz", Body=archive())
        walk("upload")

        commands = [
            "echo first",
            "echo up > $HOME/up",
            f"until [ -e {folder}/builds/*/home/go ]; do sleep 0.05; done",
        ]
        codebuild.create_project(
            name="project",
            source={
                "type": "NO_SOURCE",
                "buildspec": json.dumps({"version": "0.2", "phases": {"build": {"commands": commands}}}),
            },
            artifacts={"type": "NO_ARTIFACTS"},
            environment={"type": "LINUX_CONTAINER", "image": "i", "computeType": "BUILD_GENERAL1_SMALL"},
            serviceRole=role,
        )
        build = codebuild.start_build(projectName="project")["build"]["id"]
        (up,) = until(lambda: list(folder.glob("builds/*/home/up")))
        walk("build", "variables", "folder", "up")
        up.with_name("go").touch()
        look = functools.partial(codebuild.batch_get_builds, ids=[build])
        ended = until(lambda: [item for item in look()["builds"] if item["buildComplete"]])
        assert ended[0]["buildStatus"] == "SUCCEEDED"
        walk("end of a build")

        url = "s3://models/negate.tar.gz"
        sagemaker.create_model(
            ModelName="m", ExecutionRoleArn=role, PrimaryContainer={"Image": IMAGE, "ModelDataUrl": url}
        )
        variant = {"VariantName": "v", "ModelName": "m", **INSTANCE}
        sagemaker.create_endpoint_config(EndpointConfigName="c", ProductionVariants=[variant])
        sagemaker.create_endpoint(EndpointName="e", EndpointConfigName="c")
        sagemaker.get_waiter("endpoint_in_service").wait(
            EndpointName="e", WaiterConfig={"Delay": 1, "MaxAttempts": 60}
        )
        walk("deploy", "model.py", "triton.log")

        body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 1], "data": [2.0]}]}
        answer = client("sagemaker-runtime").invoke_endpoint(
            EndpointName="e", Body=json.dumps(body), ContentType="application/json"
        )
        assert json.load(answer["Body"])["outputs"][0]["data"] == [-2.0]
        walk("invoke")

        groups = client("logs").describe_log_groups()["logGroups"]
        assert {group["logGroupName"] for group in groups} >= {
            "/aws/codebuild/project",
            "/aws/sagemaker/Endpoints/e",
        }
        walk("logs")
    finally:
        stop(state_dir=folder)
    walk("down", "secret", "state")
    forget(state_dir=folder)
    walk("down --forget")


@pytest.mark.parametrize("mode", [0o775, 0o700, 0o500])
def test_the_folder_of_an_earlier_version_is_closed(home, mode):
    folder = home / "clouds/default"
    folder.mkdir(parents=True)
    (folder / "cloud.log").write_text("private")
    (folder / "cloud.log").chmod(0o666)
    folder.chmod(mode)
    private_folder(folder)
    assert reached_by_another_user(folder)[1] == []
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o755, 0o700])
@pytest.mark.parametrize("foreign", ["clouds/default", "clouds/default/secret"])
def test_what_belongs_to_another_user_is_rejected(home, foreign, mode):
    folder = home / "clouds/default"
    folder.mkdir(parents=True)
    folder.chmod(mode)
    (folder / "secret").write_text("00" * 32)
    os.chown(home / foreign, NOBODY, NOBODY)
    with pytest.raises(ForeignStateError) as rejected:
        private_folder(folder)
    assert str(home / foreign) in rejected.value.message
    shutil.rmtree(folder)
