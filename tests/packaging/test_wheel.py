"""What the wheel contains, and what works with it installed outside the source tree."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from tests.packaging.wheels import Installed, tracked

PACKAGES = ("model_build", "stacks", "tritonstack")
SHIPPED = ("cdk.json", "package.json", "package-lock.json", "requirements.txt", "requirements-local.txt")


def files_of(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_wheel_contains_every_package_file(wheels):
    assert tracked(*PACKAGES) - files_of(wheels["tritonstack"]) == set()


def test_wheel_contains_the_files_of_setup_init_and_builds(wheels):
    shipped = {*SHIPPED, *tracked("containers", "examples", ".github/workflows")}
    assert {f"tritonstack/shipped/{name}" for name in shipped} - files_of(wheels["tritonstack"]) == set()


@pytest.mark.parametrize(
    ("wheel", "names"),
    [
        ("tritonstack", set(PACKAGES)),
        ("tritonstack_local", {"tritonstack_local"}),
        ("tritonstack_sizing", {"tritonstack_sizing"}),
    ],
)
def test_wheel_installs_no_other_import_name(wheels, wheel, names):
    top = {file.partition("/")[0] for file in files_of(wheels[wheel])}
    assert {name for name in top if not name.endswith(".dist-info")} == names


def test_package_without_extras_is_the_client(client_only: Installed, tmp_path):
    code = """
import tritonstack.client as c
from tritonstack.client.light import LightRuntime
print(c.__file__)
c.EndpointClient(endpoint_name="e")
LightRuntime()
"""
    ended = client_only.run("python", "-c", code, cwd=tmp_path, AWS_DEFAULT_REGION="us-east-1")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith(str(client_only.site_packages))


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("tritonstack", "typer is not installed\n  help: run `pip install 'tritonstack[cli]'`"),
        ("tritonstack-app", "aws_cdk is not installed\n  help: run `pip install 'tritonstack[cdk]'`"),
    ],
)
def test_command_names_its_missing_extra(client_only: Installed, tmp_path, script, message):
    ended = client_only.run(script, cwd=tmp_path)
    assert (ended.returncode, ended.stdout, ended.stderr) == (2, "", f"error[TS615]: {message}\n")


@pytest.mark.parametrize(
    ("script", "name"),
    [("tritonstack", "tritonstack"), ("tritonstack", "yaml"), ("tritonstack-app", "stacks")],
)
def test_user_folder_does_not_shadow_a_package(complete: Installed, tmp_path, name, script):
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text("raise SystemExit('the wrong package')\n")
    ended = complete.run(script, "validate", cwd=tmp_path)
    assert ended.returncode == 2
    assert f"at or above {tmp_path}" in ended.stderr


def test_bash_completion_calls_the_console_script(complete: Installed, tmp_path):
    ended = complete.run("tritonstack", cwd=tmp_path, _TRITONSTACK_COMPLETE="source_bash")
    assert ended.returncode == 0
    assert "_TRITONSTACK_COMPLETE=complete_bash $1" in ended.stdout
    assert ended.stdout.rstrip().endswith("-F _tritonstack_completion tritonstack")
