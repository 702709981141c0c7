"""The builder's image: its inputs, and the script that builds and pushes it."""

import os
import subprocess
from pathlib import Path

import pytest

from tritonstack.base.paths import find_project

ROOT = find_project(Path(__file__).parent).root
BUILDER = ROOT / "containers" / "builder"
BASE = "763104351884.dkr.ecr.eu-west-1.amazonaws.com/sagemaker-tritonserver:25.04-py3"
IMAGE = "111111111111.dkr.ecr.eu-west-1.amazonaws.com/t-dev/builder:25.04-py3-0a1b2c"


def pins(file: Path) -> set[str]:
    return {line.split()[0] for line in file.read_text().splitlines() if "==" in line}


def test_models_are_built_with_the_tested_versions():
    ours = pins(BUILDER / "requirements.txt") | pins(BUILDER / "torch.txt")
    assert ours <= pins(ROOT / "requirements-local.txt")
    names = {pin.partition("==")[0] for pin in ours}
    assert {"torch", "transformers", "onnxruntime", "treelite", "boto3", "pydantic"} <= names
    assert not names & {"aws-cdk-lib", "moto"}


def publish(
    folder: Path, *, there: bool = False, push: int = 0, buildx: bool = True
) -> tuple[int, list[str]]:
    """Run the script with stand-ins for `aws` and `docker` that record their calls."""
    heard = folder / "heard.txt"
    answer = f'case "$*" in *describe-images*) exit {0 if there else 254} ;; esac'
    pushed = f'case "$1 $2" in "push "*) exit {push} ;; login*) cat >/dev/null ;; "buildx version") '
    pushed += f"exit {0 if buildx else 1} ;; esac"
    for name, script in (("aws", answer), ("docker", pushed)):
        file = folder / name
        file.write_text(f'#!/bin/sh\necho "{name} $*" >>{heard}\n{script}\n')
        file.chmod(0o755)
    result = subprocess.run(
        ["sh", str(BUILDER.parent / "publish.sh"), "builder", BASE, IMAGE, "https://example.com/cpu"],
        env={"PATH": f"{folder}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    return result.returncode, heard.read_text().splitlines()


@pytest.mark.parametrize(
    ("buildx", "command"),
    [
        # By default, buildx makes images that SageMaker rejects.
        (True, "docker buildx build --provenance=false --sbom=false --output type=docker"),
        (False, "docker build"),
    ],
)
def test_an_image_is_built_from_its_base_and_pushed(tmp_path, buildx, command):
    status, heard = publish(tmp_path, buildx=buildx)
    assert status == 0
    (build,) = [line for line in heard if " --build-arg " in line]
    assert build == (
        f"{command} --build-arg BASE_IMAGE={BASE} --build-arg TORCH_INDEX=https://example.com/cpu "
        f"--tag {IMAGE} {BUILDER}"
    )
    assert f"docker push {IMAGE}" in heard
    looked = "aws ecr describe-images --repository-name t-dev/builder --image-ids imageTag=25.04-py3-0a1b2c"
    assert heard[0] == looked


def test_existing_image_is_not_rebuilt(tmp_path):
    status, heard = publish(tmp_path, there=True)
    assert (status, len(heard)) == (0, 1)


def test_a_push_that_fails_is_a_failure(tmp_path):
    assert publish(tmp_path, push=1)[0] != 0


@pytest.mark.parametrize("word", ["AWS_ACCESS_KEY", "AWS_SECRET", "HF_TOKEN", "ENTRYPOINT", "LABEL "])
def test_image_contains_no_credentials_and_keeps_the_server_packages(word):
    assert word not in (BUILDER / "Dockerfile").read_text()
