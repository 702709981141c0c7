"""What the wheel contains, and what works with it installed outside the source tree."""

from __future__ import annotations

import email
import fnmatch
import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.packaging.wheels import PROJECTS, ROOT, Installed, tracked

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
    ("wheel", "names"), [("tritonstack", set(PACKAGES)), ("tritonstack_local", {"tritonstack_local"})]
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


@pytest.mark.parametrize("name", [*PACKAGES, "tritonstack_local", "yaml"])
@pytest.mark.parametrize("script", ["tritonstack", "tritonstack-app"])
def test_user_folder_does_not_shadow_a_package(complete: Installed, tmp_path, name, script):
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text("raise SystemExit('the wrong package')\n")
    ended = complete.run(script, "validate", cwd=tmp_path)
    assert ended.returncode == 2
    assert f"at or above {tmp_path}" in ended.stderr


@pytest.mark.parametrize("wheel", ["tritonstack", "tritonstack_local"])
def test_its_metadata_describes_it(wheels, wheel):
    with zipfile.ZipFile(wheels[wheel]) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        fields = email.message_from_bytes(archive.read(name))
    assert {"Author", "Keywords", "License-Expression", "Requires-Python", "Summary"} <= set(fields)
    assert "Operating System :: POSIX :: Linux" in fields.get_all("Classifier")


@pytest.mark.parametrize("project", PROJECTS.values(), ids=PROJECTS)
def test_build_output_is_ignored_by_git_and_removed_by_make_clean(project):
    """`pip wheel` in the source tree writes build/ and an egg-info folder."""
    outputs = [project / "build/lib", project / "tritonstack.egg-info/PKG-INFO"]
    check = ["git", "check-ignore", *map(str, outputs)]
    listed = subprocess.run(check, cwd=ROOT, capture_output=True, text=True, check=False)
    assert listed.stdout.splitlines() == check[2:]
    recipe = (ROOT / "Makefile").read_text().partition("\nclean:")[2].partition("\n\n")[0]
    removed = [name for line in recipe.splitlines() if "rm -rf" in line for name in line.split()[2:]]
    for path in outputs:
        folder = path.parent.relative_to(ROOT)
        assert any(fnmatch.fnmatchcase(str(folder), name) for name in removed), folder
