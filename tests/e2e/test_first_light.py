"""The complete workflow: a model is built, deployed, invoked, changed, and destroyed.

The tests run in order in one cloud and depend on each other.
"""

from __future__ import annotations

import json
import re
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from model_build.data import FrameworkFiles
from model_build.sources import fetch_source
from tests.e2e.conftest import REPOSITORY, Site, lock_damaged_artifact
from tests.e2e.snippets import outputs_of, run_snippet
from tests.projects import edit
from tritonstack.client import EndpointClient
from tritonstack.files.loading import ProjectFiles
from tritonstack.operate.shared.events import read_events
from tritonstack.operate.shared.stacks import describe_stack, list_stacks, wait_until_settled
from tritonstack_local.cloud_folder import read_address

pytestmark = pytest.mark.soak

DEPLOY_ALL = ("deploy", "--all", "--require-approval", "never")
NO_DIFFERENCE = "Number of stacks with differences: 0"
SENTENCES = ("A man is eating food.", "Someone is having a meal.", "naïve café 東京 🙂", "x" * 600)


def ask(site: Site, texts: tuple[str, ...]) -> np.ndarray:
    client = EndpointClient(
        endpoint_name=site.spec.endpoint_name("minilm"), runtime=site.cloud.client("sagemaker-runtime")
    )
    return client.infer({"TEXT": np.array([[text] for text in texts], dtype=object)})["embedding"]


def framework_answers(site: Site, texts: tuple[str, ...]) -> np.ndarray:
    from model_build.exporters.texts import TextFramework

    model = ProjectFiles(site.project).model("minilm-embedding")
    source = fetch_source(
        model.record.source, model_folder=model.file.parent, cache_dir=site.project.cache_dir
    )
    framework = TextFramework(FrameworkFiles(source.folder, model.record.recipe))
    return framework.answer(framework.tokenize(texts))["embedding"]


def endpoint_status(site: Site) -> str:
    sagemaker = site.cloud.client("sagemaker")
    return sagemaker.describe_endpoint(EndpointName=site.spec.endpoint_name("minilm"))["EndpointStatus"]


def endpoint_answers(site: Site) -> bool:
    """Return whether the endpoint is in service and returns one embedding per text."""
    return endpoint_status(site) == "InService" and ask(site, SENTENCES[:1]).shape == (1, 384)


def test_build_reproduces_the_locked_digest(site: Site) -> None:
    locked = site.project.lock_file("local").read_text()
    site.tritonstack("build", "local", "--no-publish")
    assert site.project.lock_file("local").read_text() == locked


def test_port_in_use_is_reported(site: Site) -> None:
    site.tritonstack("up", "--detach")
    site_beside = Site(site.project, {"TRITONSTACK_CLOUD": "beside"})
    output = site_beside.tritonstack("up", "--detach", "--port", str(site.address.port), exit_code=2)
    assert str(site.address.port) in output
    assert "help:" in output


def test_deploying_without_bootstrap_names_the_command(site: Site) -> None:
    output = site.tritonstack("deploy", "local", exit_code=1)
    assert "account 000000000000 in us-east-1 is not bootstrapped" in output
    assert "add --bootstrap" in output


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
    answer = site.asked("invoke", "local", "minilm", *SENTENCES[:2])
    assert np.shape(answer["outputs"]["embedding"]) == (2, 384)


def test_printed_requests_run_as_they_are(site: Site, tmp_path: Path) -> None:
    (text, *_) = ProjectFiles(site.project).model("minilm-embedding").record.test_texts
    (expected,) = ask(site, (text,))
    for language in ("curl", "aws-cli", "javascript"):
        answered = run_snippet(site, tmp_path, language, "minilm")
        if answered or language != "javascript":
            np.testing.assert_allclose(outputs_of(answered)["embedding"], expected, atol=1e-6)
    assert "embedding float32 (1, 384)" in run_snippet(site, tmp_path, "python", "minilm")


def test_the_endpoint_is_measured_under_load(site: Site, tmp_path: Path) -> None:
    measure = ("bench", "local", "minilm", "--duration", "3")
    found = site.asked(*measure, "--users", "2", "--save", str(tmp_path / "a.json"))
    (run,) = found["runs"]
    assert (run["load"], run["errors"]) == ("closed loop, 2 users", {})
    assert run["answered_per_s"] > 0
    assert run["latency_ms"]["p50"] > 0
    random = site.asked(*measure, "--rate", "5", "--plot", str(tmp_path / "a.svg"), "--record")
    assert random["runs"][0]["load"] == "open loop, 5 per second at random"
    assert (tmp_path / "a.svg").read_text().startswith("<svg")
    (event,) = read_events(site.cloud, site.spec.artifact_bucket, kinds=["load-tested"])
    assert event.key == random["recorded"]
    assert event.load_test is not None
    assert event.load_test.instance_type == site.spec.endpoints["minilm"].instance.name
    assert not event.load_test.real_instances
    (level,) = event.load_test.levels
    assert (level.lowest_instances, level.highest_instances) == (1, 1)


def test_the_containers_log_is_shown_and_followed(site: Site) -> None:
    """Follow two streams of the endpoint's real log group: one of the server, one that the test writes to."""
    lines = site.asked("logs", "local", "minilm", "--variant", "main")["lines"]
    assert any("Started Sagemaker HTTPService" in line["message"] for line in lines)
    matching = site.asked("logs", "local", "--filter", "Started Sagemaker HTTPService")["lines"]
    assert matching == [line for line in lines if "Started Sagemaker HTTPService" in line["message"]]
    logs, group = site.cloud.client("logs"), f"/aws/sagemaker/Endpoints/{site.spec.endpoint_name('minilm')}"
    logs.create_log_stream(logGroupName=group, logStreamName="main/i-written")
    process = site.start("tritonstack", "logs", "local", "minilm", "--follow")
    assert process.stdout is not None
    followed = [process.stdout.readline() for _ in lines]
    assert sum("Started Sagemaker HTTPService" in line for line in followed) == len(matching)
    written = [f"line {number}" for number in range(5)]
    for message in written:
        event = {"timestamp": int(time.time() * 1000), "message": message}
        logs.put_log_events(logGroupName=group, logStreamName="main/i-written", logEvents=[event])
        time.sleep(0.5)
    while written[-1] not in followed[-1]:
        followed.append(process.stdout.readline())
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=60)
    shown = [line.partition(" main/i-written ")[2].rstrip() for line in [*followed, *rest.splitlines()]]
    assert ([line for line in shown if line], process.returncode) == (written, 1)


def test_logs_into_a_closed_pipe_end_quietly(site: Site) -> None:
    assert site.run("bash", "-c", "tritonstack logs local | head -n 1").count("\n") == 1


def test_the_documented_script_deploys_and_verifies(site: Site) -> None:
    (site.project.root / ".gitignore").write_text(".tritonstack/\nnode_modules\n")
    site.git("init", "--quiet")
    site.git("add", "--all")
    site.git("commit", "--quiet", "--message", "First")
    page = (REPOSITORY.root / "docs/python.md").read_text()
    (script,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    output = site.run(sys.executable, "-c", script)
    assert output == "minilm: tritonstack-local-minilm is in service\n"


def test_the_cdk_shows_a_change(site: Site) -> None:
    assert NO_DIFFERENCE in site.cdk("diff", "--method=change-set")
    edit(site.project.environment_file("local"), "latency_p99_ms: 2000", "latency_p99_ms: 300")
    assert re.search(r"\[~\] AWS::CloudWatch::Alarm", site.cdk("diff"))


def test_an_endpoint_that_was_rolled_back_silently_can_be_updated(site: Site) -> None:
    """SageMaker rolls a damaged artifact back, and CloudFormation reports success. The CDK deploys it."""
    sagemaker = site.cloud.client("sagemaker")
    served = sagemaker.describe_endpoint(EndpointName=site.spec.endpoint_name("minilm"))
    locked = site.project.lock_file("local").read_text()
    lock_damaged_artifact(site, "minilm")
    site.cdk(*DEPLOY_ALL)
    stack = f"{site.spec.base}-endpoint-minilm"
    wait_until_settled(site.cloud, [stack], on_change=lambda _: None)
    state = describe_stack(site.cloud, stack)
    assert state is not None
    assert state.status == "UPDATE_COMPLETE"
    alarms = site.cloud.client("cloudwatch").describe_alarms()["MetricAlarms"]
    assert 300_000 in {alarm["Threshold"] for alarm in alarms}
    output = site.tritonstack("verify", "local", exit_code=1)
    assert served["EndpointConfigName"] in output, output
    assert re.search(r"model\.tar\.gz|archive|gzip", output), output
    sagemaker.describe_endpoint_config(EndpointConfigName=served["EndpointConfigName"])
    assert endpoint_answers(site)

    site.project.lock_file("local").write_text(locked)
    site.tritonstack("deploy", "local")
    assert endpoint_answers(site)
    assert "0 orphaned" in site.tritonstack("audit", "local")


def test_the_cdk_destroys_an_endpoint_and_audit_lists_what_it_retains(site: Site) -> None:
    site.cdk("destroy", f"{site.spec.base}-endpoint-minilm", "--force")
    assert {stack.name for stack in list_stacks(site.cloud, prefix=site.spec.base)} == {
        f"{site.spec.base}-foundation",
        f"{site.spec.base}-monitoring",
    }
    (report,) = site.asked("audit", "local", exit_code=1).values()
    retained = {item["type"] for item in report["orphans"]}
    assert retained == {"AWS::SageMaker::EndpointConfig", "AWS::SageMaker::Model"}


def test_destroy_and_down_leave_nothing(site: Site) -> None:
    site.tritonstack("destroy", "local", "--yes")
    left = [item for item in site.inventory() if site.spec.base in json.dumps(item)]
    assert left == []
    assert "no stacks remained" in site.tritonstack("destroy", "local", "--yes")

    pid = site.address.pid
    site.tritonstack("down")
    assert read_address(site.project.cloud_dir()) is None
    deadline = time.monotonic() + 10
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not Path(f"/proc/{pid}").exists()
    assert "was not running" in site.tritonstack("down")
