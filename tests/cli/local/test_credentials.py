"""What `tritonstack up` prints about a cloud's credentials."""

import json
import subprocess

import pytest

from tests.projects import write_project
from tritonstack.cli.main import run
from tritonstack.operate.shared.aws import CONFLICTING_VARIABLES, Cloud
from tritonstack_local.access.keys import CloudSecret
from tritonstack_local.cloud_folder import CloudAddress

ADDRESS = CloudAddress("http://localhost:1", 1, 1, "000000000000", "us-east-1", secret=CloudSecret.random())
SECRET = ADDRESS.environment()["AWS_SECRET_ACCESS_KEY"]


@pytest.fixture
def up(tmp_path, monkeypatch, capsys):
    project = write_project(tmp_path)
    monkeypatch.setattr("tritonstack.operate.local.clouds.start_detached", lambda *_, **__: ADDRESS)

    def started(*before, after=()):
        assert run(["--project", str(project.root), *before, "up", "--detach", *after]) == 0
        out, err = capsys.readouterr()
        return out, out + err

    return started


def test_only_the_shell_gets_the_secret(up):
    assert f"export AWS_SECRET_ACCESS_KEY={SECRET}" in up(after=["--shell"])[0].splitlines()
    printed, everything = up()
    assert SECRET not in everything
    assert '"$(tritonstack up --shell)"' in printed
    assert "AWS_CONFIG_FILE=" in printed
    assert "aws-profile" in printed
    out, everything = up("--json")
    assert SECRET not in everything
    document = json.loads(out)
    assert document["profile"].endswith("aws-profile")
    assert document["environment"]["AWS_ENDPOINT_URL"] == "http://localhost:1"
    out, _ = up("--json", after=["--shell"])
    assert json.loads(out)["environment"]["AWS_SECRET_ACCESS_KEY"] == SECRET


@pytest.mark.parametrize("name", CONFLICTING_VARIABLES)
def test_a_login_to_aws_is_not_combined_with_the_keys_of_the_embedded_cloud(up, monkeypatch, name):
    monkeypatch.setenv(name, "left-by-a-login")
    variables = ADDRESS.environment()
    assert name not in Cloud(ADDRESS.account_id, ADDRESS.region, variables).process_environment()
    script = up(after=["--shell"])[0] + f'echo "[${{{name}-}}]"'
    shown = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout
    assert shown == "[]\n"
