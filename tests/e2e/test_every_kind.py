"""Every kind of endpoint on the local cloud: deployed, invoked, updated, and destroyed, or rejected with a
message.

The models are tiny, and built for real: a pipeline that takes text, and one model that takes tokens. The
tests of this file run in order and depend on each other.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.e2e.conftest import Site, lock_damaged_artifact, tiny_site
from tests.e2e.snippets import run_snippet
from tests.model_build.checking.test_stream_check import write_counting_model
from tests.model_build.tiny import TEXTS, write_model
from tests.projects import edit
from tritonstack.base import naming
from tritonstack.client import EndpointClient, ModelNames, StreamFailedError
from tritonstack.files.loading import load_workspace
from tritonstack.operate.shared.stacks import describe_stack, environment_stacks
from tritonstack.operate.verify.smoke import smoke_endpoint

pytestmark = pytest.mark.soak

ENVIRONMENT = """\
name: local
account: "000000000000"
region: us-east-1
triton_release: "25.04"
removal: destroy
endpoints:
  pipeline: {kind: ensemble, model: texts, instance_type: ml.c7i.xlarge}
  alone: {kind: single, model: tokens, instance_type: ml.c7i.xlarge}
  counted: {kind: single, model: counting, instance_type: ml.c7i.xlarge}
  many:
    kind: multi-model
    models: [texts, tokens]
    instance_type: ml.c7i.xlarge
  compared:
    kind: ensemble
    model: texts
    instance_type: ml.c7i.xlarge
"""
CHALLENGER = "    challenger: {instance_type: ml.m7i.large, share: 0.5}\n"

REJECTED = {
    "asynchronous": (
        "asynchronous: {}\n    scaling: {min_instances: 0, max_instances: 2}",
        "AsyncInferenceConfig",
    ),
    "components": (
        "components: {memory_mb: 512, cpus: 1}\n    scaling: {min_instances: 0, max_instances: 2}",
        "Inference components run on AWS only",
    ),
    "shadow": ("shadow: {instance_type: ml.m7i.large, share: 0.5}", "shadow variants"),
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    root = tmp_path_factory.mktemp("kinds")
    here = tiny_site(root, ENVIRONMENT + CHALLENGER, texts="text", tokens="tokens")
    write_counting_model(here.project.model_file("counting").parent)
    yield here
    here.tritonstack("down")


def client(site: Site, endpoint: str, **options: str) -> EndpointClient:
    return EndpointClient(
        endpoint_name=site.spec.endpoint_name(endpoint),
        runtime=site.cloud.client("sagemaker-runtime"),
        **options,
    )


def embed_text(site: Site, endpoint: str, **options: str) -> np.ndarray:
    texts = np.array([[text] for text in TEXTS[:2]], dtype=object)
    return client(site, endpoint, **options).infer({"TEXT": texts})["embedding"]


def embed_tokens(site: Site, endpoint: str, **options: str) -> np.ndarray:
    """Embed the same two texts as token ids."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(site.project.models_dir / "weights" / "tokenizer.json"))
    encoded = [tokenizer.encode(text) for text in TEXTS[:2]]
    length = max(len(one.ids) for one in encoded)
    ids = np.array([one.ids + [0] * (length - len(one.ids)) for one in encoded], dtype=np.int64)
    mask = np.array([[1] * len(one.ids) + [0] * (length - len(one.ids)) for one in encoded], dtype=np.int64)
    return client(site, endpoint, **options).infer({"input_ids": ids, "attention_mask": mask})["embedding"]


def target(site: Site, model: str) -> str:
    artifact = load_workspace(site.project, "local").lock.record.models[model]["cpu"]
    return naming.target_model(model, artifact.digest)


def check_answers(site: Site) -> None:
    """Check that each endpoint with the same weights gives the same numbers."""
    expected = embed_text(site, "pipeline")
    assert expected.shape == (2, 32)
    for answer in (
        embed_tokens(site, "alone"),
        embed_text(site, "many", target_model=target(site, "texts")),
        embed_tokens(site, "many", target_model=target(site, "tokens")),
        embed_text(site, "compared", target_variant="main"),
        embed_text(site, "compared", target_variant="challenger"),
    ):
        np.testing.assert_allclose(answer, expected, atol=1e-4)


def test_everything_is_built_and_deployed(site: Site) -> None:
    site.tritonstack("build", "local", "--no-publish")
    site.tritonstack("up", "--detach")
    site.tritonstack("deploy", "local", "--bootstrap")
    names = {stack.name: stack.status for stack in environment_stacks(site.cloud, site.spec.base)}
    assert set(names.values()) == {"CREATE_COMPLETE"}, names
    assert {f"{site.spec.base}-endpoint-{name}" for name in site.spec.endpoints} < set(names)


def test_every_kind_of_endpoint_answers_for_each_model(site: Site) -> None:
    check_answers(site)


def test_a_decoupled_model_streams_its_responses(site: Site, tmp_path: Path) -> None:
    responses = list(client(site, "counted").stream_responses({"x": [2.0, 0.5]}))
    assert [response["y"] for response in responses] == [[2.0, 0.5], [3.0, 1.5]]
    with pytest.raises(StreamFailedError, match="out of ink"):
        list(client(site, "counted").stream_responses({"x": [1.0, 99.0]}))
    shown = site.tritonstack("invoke", "local", "counted", "--stream", "--input", "x=[1.0, 7.0]")
    assert json.loads(shown.splitlines()[-1]) == {"word": "näch 0", "y": [1.0, 7.0]}
    for language in ("curl", "python"):
        assert "näch 1" in run_snippet(site, tmp_path, language, "counted")
    results = smoke_endpoint(site.cloud, load_workspace(site.project, "local"), "counted")
    assert [result.outcome for result in results] == ["ok", "ok"]


def test_every_model_answers_as_in_its_build(site: Site) -> None:
    workspace = load_workspace(site.project, "local")
    results = [
        result for name in site.spec.endpoints for result in smoke_endpoint(site.cloud, workspace, name)
    ]
    assert {(result.outcome, result.detail) for result in results} == {("ok", "")}
    assert {(result.endpoint, result.variant, result.model) for result in results} == {
        ("pipeline", "main", "texts"),
        ("alone", "main", "tokens"),
        ("many", "main", "texts"),
        ("many", "main", "tokens"),
        ("compared", "main", "texts"),
        ("compared", "challenger", "texts"),
        ("counted", "main", "counting"),
    }


def test_invoke_selects_a_model_of_a_multi_model_endpoint_by_name(site: Site) -> None:
    answer = site.asked("invoke", "local", "many", "--model", "texts", TEXTS[0])
    assert np.shape(answer["outputs"]["embedding"]) == (1, 32)


def test_both_variants_get_requests(site: Site) -> None:
    runtime = site.cloud.client("sagemaker-runtime")
    body = json.dumps(
        {"inputs": [{"name": "TEXT", "shape": [1, 1], "datatype": "BYTES", "data": [TEXTS[0]]}]}
    )
    answered = {
        runtime.invoke_endpoint(
            EndpointName=site.spec.endpoint_name("compared"), ContentType="application/json", Body=body
        )["InvokedProductionVariant"]
        for _ in range(60)
    }
    assert answered == {"main", "challenger"}


def test_another_model_of_a_multi_model_endpoint_rolls_nothing_out(site: Site) -> None:
    before = last_rollout(site, "many")
    third = site.project.model_file("third")
    write_model(third.parent, name="third", source="file://../weights")
    edit(third, "max_length: 24", "max_length: 16")
    edit(
        site.project.environment_file("local"),
        "[texts, tokens]",
        "[texts, tokens, third]",
    )
    site.tritonstack("build", "local", "--no-publish")
    site.tritonstack("deploy", "local")
    assert last_rollout(site, "many") == before
    path = naming.targets_path(site.spec.base, "many")
    published = ModelNames.published(path, ssm=site.cloud.client("ssm")).known()
    assert published == {name: target(site, name) for name in ("texts", "third", "tokens")}
    answer = embed_text(site, "many", target_model=published["third"])
    np.testing.assert_allclose(answer, embed_text(site, "pipeline"), atol=1e-4)


def last_rollout(site: Site, endpoint: str) -> tuple[object, object]:
    """Return the endpoint's configuration, and when it last changed."""
    found = site.cloud.client("sagemaker").describe_endpoint(EndpointName=site.spec.endpoint_name(endpoint))
    return found["EndpointConfigName"], found["LastModifiedTime"]


def test_every_kind_of_endpoint_answers_during_updates(site: Site) -> None:
    file = site.project.environment_file("local")
    text = file.read_text()
    for name in site.spec.endpoints:
        # Another start-up limit is another configuration: every endpoint rolls out.
        text = text.replace(f"  {name}: {{kind", f"  {name}: {{startup_timeout_s: 900, kind")
        text = text.replace(f"  {name}:\n", f"  {name}:\n    startup_timeout_s: 900\n")
    file.write_text(text)
    configs = active_configs(site)
    site.tritonstack("deploy", "local")
    updated = active_configs(site)
    assert not set(configs.values()) & set(updated.values())
    check_answers(site)


def active_configs(site: Site) -> dict[str, str]:
    sagemaker = site.cloud.client("sagemaker")
    return {
        name: sagemaker.describe_endpoint(EndpointName=site.spec.endpoint_name(name))["EndpointConfigName"]
        for name in site.spec.endpoints
    }


@pytest.mark.parametrize("mode", REJECTED)
def test_features_unsupported_by_the_embedded_cloud_are_reported(site: Site, mode: str) -> None:
    option, words = REJECTED[mode]
    file = site.project.environment_file("local")
    text = file.read_text()
    beyond = "  beyond:\n    kind: ensemble\n    model: texts\n    instance_type: ml.c7i.xlarge\n"
    file.write_text(f"{text}{beyond}    {option}\n")
    try:
        output = site.tritonstack("deploy", "local", exit_code=1)
    finally:
        file.write_text(text)
    assert words in output, output
    stack = describe_stack(site.cloud, naming.endpoint_stack_name(site.spec.base, "beyond"))
    assert stack is None or stack.status in ("ROLLBACK_COMPLETE", "REVIEW_IN_PROGRESS"), stack
    check_answers(site)


def test_a_removed_challenger_that_serves_is_kept(site: Site) -> None:
    """Its model leaves the template in an update that SageMaker rolls back silently."""
    sagemaker, iam = site.cloud.client("sagemaker"), site.cloud.client("iam")
    served, answers = active_configs(site)["compared"], embed_text(site, "compared")
    edit(site.project.environment_file("local"), CHALLENGER, "")
    lock_damaged_artifact(site, "compared")
    # SageMaker removes no variant that is registered for scaling; `tritonstack deploy` does this first too.
    site.cloud.client("application-autoscaling").deregister_scalable_target(
        ServiceNamespace="sagemaker",
        ResourceId=f"endpoint/{site.spec.endpoint_name('compared')}/variant/challenger",
        ScalableDimension="sagemaker:variant:DesiredInstanceCount",
    )
    stack = naming.endpoint_stack_name(site.spec.base, "compared")
    site.cdk("deploy", stack, "--require-approval", "never")
    state = describe_stack(site.cloud, stack)
    assert state is not None
    assert state.status == "UPDATE_COMPLETE"
    assert active_configs(site)["compared"] == served
    variants = sagemaker.describe_endpoint_config(EndpointConfigName=served)["ProductionVariants"]
    assert [variant["VariantName"] for variant in variants] == ["main", "challenger"]
    for variant in variants:
        model = sagemaker.describe_model(ModelName=variant["ModelName"])
        (policy,) = iam.list_role_policies(RoleName=model["ExecutionRoleArn"].split("/")[-1])["PolicyNames"]
        assert policy
        answer = embed_text(site, "compared", target_variant=variant["VariantName"])
        np.testing.assert_allclose(answer, answers, atol=1e-4)
    site.tritonstack("build", "local", "--no-publish")
    site.tritonstack("deploy", "local")
    config = sagemaker.describe_endpoint_config(EndpointConfigName=active_configs(site)["compared"])
    assert [variant["VariantName"] for variant in config["ProductionVariants"]] == ["main"]
    np.testing.assert_allclose(embed_text(site, "compared"), answers, atol=1e-4)


def test_rolled_back_endpoint_gets_its_configuration_again(site: Site) -> None:
    """As after a rollback by alarms: the endpoint is in service, on another configuration."""
    deployed = active_configs(site)
    sagemaker = site.cloud.client("sagemaker")
    name = site.spec.endpoint_name("alone")
    config = sagemaker.describe_endpoint_config(EndpointConfigName=deployed["alone"])
    sagemaker.create_endpoint_config(
        EndpointConfigName="before", ProductionVariants=config["ProductionVariants"]
    )
    sagemaker.update_endpoint(EndpointName=name, EndpointConfigName="before")
    sagemaker.get_waiter("endpoint_in_service").wait(EndpointName=name, WaiterConfig={"Delay": 1})
    verdict = site.asked("verify", "local", "--no-smoke", "--no-record", exit_code=1)
    assert any("configuration before" in failure for failure in verdict["failures"])
    site.tritonstack("deploy", "local")
    assert active_configs(site) == deployed


def test_everything_is_destroyed(site: Site) -> None:
    site.tritonstack("destroy", "local", "--yes")
    left = [item for item in site.inventory() if site.spec.base in json.dumps(item)]
    assert left == []
    assert "0 resources belong to stacks, 0 orphaned" in site.tritonstack("audit", "local", "--gone")
