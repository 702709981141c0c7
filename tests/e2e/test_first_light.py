"""The complete workflow: a model is built, deployed, invoked, and destroyed.

The tests of this file run in order and depend on each other.
"""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from model_build.sources import fetch_source
from tests.e2e.conftest import Site
from tritonstack.client import EndpointClient
from tritonstack.operations.stacks import list_stacks
from tritonstack.project.loading import load_model
from tritonstack_local.cloud_folder import read_address

pytestmark = pytest.mark.e2e

SENTENCES = ("A man is eating food.", "Someone is having a meal.", "naïve café 東京 🙂", "x" * 600)


def ask(site: Site, texts: tuple[str, ...]) -> np.ndarray:
    client = EndpointClient(
        endpoint_name=site.spec.endpoint_name("minilm"), runtime=site.cloud.client("sagemaker-runtime")
    )
    return client.infer({"TEXT": np.array([[text] for text in texts], dtype=object)})["embedding"]


def framework_answers(site: Site, texts: tuple[str, ...]) -> np.ndarray:
    from model_build.exporters.text_framework import TextFramework

    model = load_model(site.project, "minilm-embedding")
    source = fetch_source(
        model.record.source, model_folder=model.file.parent, cache_dir=site.project.cache_dir
    )
    framework = TextFramework(source=source, recipe=model.record.recipe)
    return framework.answer(framework.tokenize(texts))["embedding"]


def endpoint_status(site: Site) -> str:
    sagemaker = site.cloud.client("sagemaker")
    return sagemaker.describe_endpoint(EndpointName=site.spec.endpoint_name("minilm"))["EndpointStatus"]


def test_build_reproduces_the_locked_digest(site: Site) -> None:
    locked = site.project.lock_file("local").read_text()
    site.tritonstack("build", "local", "--no-publish")
    assert site.project.lock_file("local").read_text() == locked


def test_cloud_listens_on_loopback_only(site: Site) -> None:
    site.tritonstack("up", "--detach")
    port = f"{site.address.port:04X}"
    listening = [
        line.split()[1]
        for table in ("/proc/net/tcp", "/proc/net/tcp6")
        for line in Path(table).read_text().splitlines()[1:]
        if line.split()[3] == "0A" and line.split()[1].endswith(f":{port}")
    ]
    assert listening
    assert all(
        address.startswith(("0100007F:", "00000000000000000000000001000000:")) for address in listening
    )


def test_second_cloud_in_the_same_folder_is_rejected(site: Site) -> None:
    output = site.tritonstack("up", "--detach", exit_code=2)
    assert "already running" in output


def test_port_in_use_is_reported(site: Site) -> None:
    site_beside = Site(site.project, {"TRITONSTACK_CLOUD": "beside"})
    output = site_beside.tritonstack("up", "--detach", "--port", str(site.address.port), exit_code=2)
    assert str(site.address.port) in output
    assert "help:" in output


def test_deploying_without_bootstrap_names_the_command(site: Site) -> None:
    output = site.tritonstack("deploy", "local", exit_code=1)
    assert "cdk bootstrap aws://000000000000/us-east-1" in output


def test_the_cdk_bootstraps_the_account(site: Site) -> None:
    output = site.cdk("bootstrap", "aws://000000000000/us-east-1")
    assert "bootstrapped" in output


def test_ctrl_c_in_the_middle_of_deploy(site: Site) -> None:
    process = site.start("tritonstack", "deploy", "local")
    output = ""
    assert process.stdout is not None
    for line in process.stdout:
        output += line
        if "CREATE_IN_PROGRESS" in line:
            break
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=60)
    assert process.returncode == 1, output + rest
    assert "interrupted; CloudFormation finishes running operations" in rest
    assert "Traceback" not in rest


def test_deploying_again_resumes(site: Site) -> None:
    site.tritonstack("deploy", "local")
    assert {stack.status for stack in list_stacks(site.cloud, prefix=site.spec.base)} <= {
        "CREATE_COMPLETE",
        "UPDATE_COMPLETE",
    }
    assert endpoint_status(site) == "InService"


def test_endpoint_answers_like_the_framework(site: Site) -> None:
    expected = framework_answers(site, SENTENCES)
    answers = ask(site, SENTENCES)
    cosine = np.sum(answers * expected, axis=1) / (
        np.linalg.norm(answers, axis=1) * np.linalg.norm(expected, axis=1)
    )
    assert answers.shape == (len(SENTENCES), 384)
    assert cosine.min() >= 0.9999


def test_another_process_sends_requests_through_the_command_line(site: Site) -> None:
    output = site.run("tritonstack", "--json", "invoke", "local", "minilm", *SENTENCES[:2])
    answer = json.loads(output)
    assert np.shape(answer["outputs"]["embedding"]) == (2, 384)


def test_destroy_leaves_nothing_of_the_environment(site: Site) -> None:
    site.tritonstack("destroy", "local", "--yes")
    left = [item for item in site.inventory() if site.spec.base in json.dumps(item)]
    assert left == []


def test_destroying_a_missing_environment_does_nothing(site: Site) -> None:
    assert "no stacks remained" in site.tritonstack("destroy", "local", "--yes")


def test_down_ends_every_process(site: Site) -> None:
    pid = site.address.pid
    site.tritonstack("down")
    assert read_address(site.project.cloud_dir()) is None
    deadline = time.monotonic() + 10
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not Path(f"/proc/{pid}").exists()
    assert "was not running" in site.tritonstack("down")
