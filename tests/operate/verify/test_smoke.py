"""Smoke requests: who is invoked, what counts as right, and what is reported otherwise."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.operate.strict_aws import client_error
from tests.operate.verify.smoke_environment import (
    ASKED,
    DIGESTS,
    RIGHT,
    Answer,
    SimulatedEndpoints,
    SimulatedQueue,
    SimulatedTime,
    StreamingEndpoint,
    example,
    manifest_of,
    model_error,
    put,
    sequence,
    stock,
    tensors_of,
    with_endpoints,
    workspace_of,
)
from tritonstack.files.project.workspace import Workspace
from tritonstack.files.records.examples import EXAMPLES_NAME
from tritonstack.files.records.manifests import MANIFEST_NAME
from tritonstack.operate.invoke.invocation_targets import endpoint_targets
from tritonstack.operate.invoke.smoke_requests import PATIENCE_WITH_SLEEPERS, USUAL_PATIENCE, may_sleep
from tritonstack.operate.shared.aws import Cloud
from tritonstack.operate.verify.smoke import SmokeResult, smoke_endpoint

PLAIN = "  search: {kind: ensemble, model: minilm, instance_type: ml.c7i.xlarge}\n"
ONE_MACHINE = PLAIN.replace("}", ", scaling: {min_instances: 1, max_instances: 1}}")
ASYNCHRONOUS = PLAIN.replace("}", ", asynchronous: {}}")
COMPONENTS = PLAIN.replace("}", ", components: {memory_mb: 512}}")
COMPARED = PLAIN.replace("}", ", challenger: {model: other}}")
SHADOWED = PLAIN.replace("}", ", shadow: {model: other}}")
MANY = "  search: {kind: multi-model, models: [minilm, other], instance_type: ml.c7i.xlarge}\n"
COMPONENT = "tritonstack-dev-search-component"
TARGET = f"minilm/{DIGESTS['minilm']}/model.tar.gz"


@dataclass
class SmokeSite:
    """An environment with its bucket, and endpoints that answer as a test sets."""

    cloud: Cloud
    workspace: Workspace
    time: SimulatedTime

    def stock(self, model: str, *requests: Any, **facts: Any) -> None:
        stock(self.cloud, self.workspace, model, *requests, **facts)

    def smoke(self, runtime: Any, *, patience_s: float = 10.0) -> list[SmokeResult]:
        return smoke_endpoint(
            with_endpoints(self.cloud, runtime),
            self.workspace,
            "search",
            patience=self.time.patience(patience_s),
        )


def smoke_site(cloud: Cloud, root: Path, endpoints: str = PLAIN, **options: Any) -> SmokeSite:
    workspace = workspace_of(root, endpoints, **options)
    for bucket in (workspace.spec.artifact_bucket, workspace.spec.data_bucket):
        cloud.client("s3").create_bucket(Bucket=bucket)
    return SmokeSite(cloud, workspace, SimulatedTime())


def answering(scores: Any) -> SimulatedEndpoints:
    return SimulatedEndpoints(lambda fields, tensors: {"scores": np.asarray(scores, dtype=np.float32)})


def failing(*errors: Exception, then: Any = RIGHT) -> SimulatedEndpoints:
    """Raise each of the errors once, then answer."""
    remaining = list(errors)

    def answer(fields: Mapping[str, Any], tensors: Mapping[str, Any]) -> Mapping[str, Any]:
        if remaining:
            raise remaining.pop(0)
        return {"scores": then}

    return SimulatedEndpoints(answer)


def test_endpoint_that_answers_as_in_its_build(cloud, tmp_path):
    here = smoke_site(cloud, tmp_path)
    here.stock("minilm", example(), example("test input 2"))
    endpoints = answering(RIGHT + 0.0005)
    first, second = here.smoke(endpoints)
    assert (first.outcome, first.detail, first.is_failure) == ("ok", "", False)
    assert (first.endpoint, first.model, first.variant) == ("search", "minilm", "main")
    assert (first.digest, first.example, second.example) == (
        DIGESTS["minilm"],
        "test input 1",
        "test input 2",
    )
    (call, _) = endpoints.calls
    assert call["EndpointName"] == here.workspace.spec.endpoint_name("search")
    assert not {"TargetModel", "TargetVariant", "InferenceComponentName"} & call.keys()
    np.testing.assert_array_equal(tensors_of(call["Body"], call["ContentType"])["x"], ASKED[0])


@pytest.mark.parametrize(
    ("scores", "values"),
    [
        # Within the cosine and not within the absolute error.
        (RIGHT + np.array([[0, 0.002, 0.01]]), ("0.202", "[0, 1]", "0.9999977", "1.00e-02", "<= 0.001")),
        # The labels in another order.
        (RIGHT[:, ::-1], ("0.7", "[0, 0]", "0.3333333", ">= 0.9999", "6.00e-01")),
        ([[0.1, np.nan, 0.7]], ("nan", "[0, 1]")),
        (RIGHT[:, :2], ("[1, 3]", "[1, 2]")),
    ],
)
def test_differences_are_reported_with_the_tolerance(cloud, tmp_path, scores, values):
    here = smoke_site(cloud, tmp_path)
    here.stock("minilm", example())
    (result,) = here.smoke(answering(scores))
    assert (result.outcome, result.is_failure, result.milliseconds) == ("wrong", True, 0)
    assert all(value in result.detail for value in ("scores", *values))


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (model_error("CUDA out of memory"), "[ModelError 500]: CUDA out of memory"),
        (
            client_error("InvokeEndpoint", "ValidationError", "Endpoint t-search not found."),
            "[ValidationError]",
        ),
        (client_error("InvokeEndpoint", "AccessDeniedException", "no"), "denied"),
    ],
)
def test_error_is_reported_immediately_with_the_message_of_the_endpoint(cloud, tmp_path, error, words):
    here = smoke_site(cloud, tmp_path)
    here.stock("minilm", example())
    (result,) = here.smoke(failing(error))
    assert (result.outcome, result.is_failure) == ("failed", True)
    assert words in result.detail
    assert here.time.now == 0
    (result,) = here.smoke(SimulatedEndpoints(lambda fields, tensors: {"error": "who knows"}))
    assert (result.outcome, "malformed reply" in result.detail) == ("failed", True)


NOT_READY = client_error("InvokeEndpoint", "ModelNotReadyException", "loading")
NO_COPY = client_error(
    "InvokeEndpoint", "ValidationError", "Inference Component has no capacity to process this request."
)


@pytest.mark.parametrize(
    ("endpoints", "error"),
    [(PLAIN, NOT_READY), (MANY, model_error("timed out", status=0)), (COMPONENTS, NO_COPY)],
)
def test_transient_failures_are_retried(cloud, tmp_path, endpoints, error):
    here = smoke_site(cloud, tmp_path, endpoints)
    here.stock("minilm", example())
    here.stock("other", example())
    assert {result.outcome for result in here.smoke(failing(error, error))} == {"ok"}
    assert here.time.now == 2


def test_wait_has_a_timeout(cloud, tmp_path):
    here = smoke_site(cloud, tmp_path)
    here.stock("minilm", example())
    (result,) = here.smoke(failing(*[NOT_READY] * 100), patience_s=10)
    assert (result.outcome, here.time.now) == ("failed", 10)
    assert "not ready" in result.detail


SLEEPING = ASYNCHRONOUS.replace("{}}", "{}, scaling: {min_instances: 0}}")
NIGHT = 'night: {at: "22:00", min: 0, max: 1}'
NIGHTS = ASYNCHRONOUS.replace("{}}", f"{{}}, scaling: {{schedules: {{{NIGHT}}}}}}}")


@pytest.mark.parametrize(
    ("endpoints", "sleeps"),
    [
        (PLAIN, False),
        (ASYNCHRONOUS, False),
        (SLEEPING, True),
        (NIGHTS, True),
        (COMPONENTS, True),
        (COMPONENTS.replace("512}", "512, min_copies: 1}"), False),
        (MANY, False),
    ],
)
def test_endpoints_that_may_be_scaled_to_zero_get_more_time(tmp_path, endpoints, sleeps):
    assert may_sleep(workspace_of(tmp_path, endpoints), "search") is sleeps
    assert PATIENCE_WITH_SLEEPERS.seconds > USUAL_PATIENCE.seconds


@pytest.mark.parametrize("endpoints", [PLAIN, MANY])
def test_an_invalid_request_is_not_a_capacity_error(cloud, tmp_path, endpoints):
    here = smoke_site(cloud, tmp_path, endpoints)
    here.stock("minilm", example())
    here.stock("other", example())
    assert "failed" in {result.outcome for result in here.smoke(failing(NO_COPY))}


def addressed(workspace: Workspace) -> list[dict[str, Any]]:
    """Return the addresses of an endpoint's targets, without fields that are rarely set."""
    names = ("served_by", "target_model", "variant", "component", "asynchronous", "one_machine")
    return [
        {"model": target.model.name, **{name: value for name in names if (value := getattr(target, name))}}
        for target in endpoint_targets(workspace, "search")
    ]


@pytest.mark.parametrize(
    ("endpoints", "targets"),
    [
        (PLAIN, [{"served_by": "main", "model": "minilm"}]),
        (ONE_MACHINE, [{"served_by": "main", "model": "minilm", "one_machine": True}]),
        (ASYNCHRONOUS, [{"served_by": "main", "model": "minilm", "asynchronous": True}]),
        (COMPONENTS, [{"served_by": "main", "model": "minilm", "component": COMPONENT}]),
        (
            COMPONENTS.replace("memory_mb", "max_copies: 1, memory_mb"),
            [{"served_by": "main", "model": "minilm", "component": COMPONENT, "one_machine": True}],
        ),
        (
            COMPARED,
            [
                {"served_by": "main", "model": "minilm", "variant": "main"},
                {"served_by": "challenger", "model": "other", "variant": "challenger"},
            ],
        ),
        (SHADOWED, [{"served_by": "main", "model": "minilm"}, {"served_by": "shadow", "model": "other"}]),
        (
            MANY,
            [
                {"served_by": "main", "model": model, "target_model": f"{model}/{digest}/model.tar.gz"}
                for model, digest in DIGESTS.items()
            ],
        ),
    ],
)
def test_each_model_of_each_variant_is_addressed(tmp_path, endpoints, targets):
    assert addressed(workspace_of(tmp_path, endpoints)) == targets


@pytest.mark.parametrize(
    ("endpoints", "field", "right", "variant"),
    [(MANY, "TargetModel", TARGET, "main"), (COMPARED, "TargetVariant", "main", "challenger")],
)
def test_the_one_of_two_targets_with_wrong_answers_is_reported(
    cloud, tmp_path, endpoints, field, right, variant
):
    here = smoke_site(cloud, tmp_path, endpoints)
    here.stock("minilm", example())
    here.stock("other", example())
    runtime = SimulatedEndpoints(lambda call, tensors: {"scores": RIGHT if call[field] == right else -RIGHT})
    assert [(result.model, result.variant, result.outcome) for result in here.smoke(runtime)] == [
        ("minilm", "main", "ok"),
        ("other", variant, "wrong"),
    ]


def test_targets_that_cannot_be_asked(cloud, tmp_path):
    """A shadow cannot be invoked, which is no failure; a model that the lock does not name is not checked."""
    for name in ("shadow", "many"):
        (tmp_path / name).mkdir()
    here = smoke_site(cloud, tmp_path / "shadow", SHADOWED)
    here.stock("minilm", example())
    main, shadow = here.smoke(answering(RIGHT))
    assert (main.outcome, shadow.variant, shadow.outcome) == ("ok", "shadow", "skipped")
    assert not shadow.is_failure
    unlocked = SmokeSite(cloud, workspace_of(tmp_path / "many", MANY, locked=["minilm"]), here.time)
    built, unbuilt = unlocked.smoke(answering(RIGHT))
    assert (built.outcome, unbuilt.model, unbuilt.digest) == ("ok", "other", None)
    assert unbuilt.outcome == "not-checked"
    assert "dev --no-publish`" in unbuilt.detail


def damage(here: SmokeSite, what: str) -> None:
    """Make examples unavailable in one way."""
    here.stock("minilm", example())
    s3, bucket = here.cloud.client("s3"), here.workspace.spec.artifact_bucket
    prefix = f"models/minilm/{DIGESTS['minilm']}"
    if what == "unpublished":
        s3.delete_object(Bucket=bucket, Key=f"{prefix}/{MANIFEST_NAME}")
    elif what == "earlier":
        put(here.cloud, here.workspace, "minilm", MANIFEST_NAME, manifest_of("minilm").to_json())
    elif what == "missing":
        s3.delete_object(Bucket=bucket, Key=f"{prefix}/{EXAMPLES_NAME}")
    elif what == "other":
        put(here.cloud, here.workspace, "minilm", EXAMPLES_NAME, "{}")
    elif what == "none":
        here.stock("minilm", none_because="the smallest takes 10 MB")
    else:
        wrong = example().model_copy(
            update={"inputs": (example().inputs[0].model_copy(update={"shape": (9,)}),)}
        )
        here.stock("minilm", wrong)


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("unpublished", "s3://tritonstack-dev-artifacts-"),
        ("earlier", "`tritonstack build`"),
        ("missing", "examples.json is missing"),
        ("other", "examples.json does not match"),
        ("none", "10 MB"),
        ("unfit", "x (FP32 [9])"),
    ],
)
def test_unverifiable_answers_are_failures_with_a_remedy(cloud, tmp_path, what, words):
    here = smoke_site(cloud, tmp_path)
    damage(here, what)
    (result,) = here.smoke(answering(RIGHT))
    assert (result.outcome, result.is_failure) == ("not-checked", True)
    assert words in result.detail


def counting() -> Answer:
    """A model that counts the requests of each sequence."""
    counts: dict[int, int] = {}

    def answer(fields: Mapping[str, Any], tensors: Mapping[str, Any]) -> Mapping[str, Any]:
        parameters = tensors["parameters"]
        sequence_id = parameters["sequence_id"]
        counts[sequence_id] = 1 if parameters["sequence_start"] else counts[sequence_id] + 1
        return {"scores": np.array([[counts[sequence_id]]], dtype=np.float32)}

    return answer


def test_sequence_is_sent_in_order_if_there_is_one_instance(cloud, tmp_path):
    here = smoke_site(cloud, tmp_path, ONE_MACHINE)
    here.stock("minilm", *sequence(3))
    endpoints = SimulatedEndpoints(counting())
    assert [result.outcome for result in here.smoke(endpoints)] == ["ok"] * 3
    sent = [tensors_of(call["Body"], call["ContentType"])["parameters"] for call in endpoints.calls]
    assert [step["sequence_start"] for step in sent] == [True, False, False]
    assert [step["sequence_end"] for step in sent] == [False, False, True]
    assert len({step["sequence_id"] for step in sent}) == 1
    here.smoke(endpoints)
    again = tensors_of(endpoints.calls[-1]["Body"], endpoints.calls[-1]["ContentType"])["parameters"]
    assert again["sequence_id"] != sent[0]["sequence_id"]


def test_only_the_first_request_of_a_sequence_is_sent_if_there_are_several_instances(cloud, tmp_path):
    here = smoke_site(cloud, tmp_path)
    here.stock("minilm", *sequence(3))
    first, rest = here.smoke(SimulatedEndpoints(counting()))
    assert (first.outcome, rest.example, rest.outcome) == ("ok", "step 2", "skipped")


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ({"text_output": "olleH"}, "ok"),
        ({"text_output": ""}, "wrong"),
        ({"text": "olleH"}, "failed"),
        ({"text_output": 7}, "failed"),
    ],
)
def test_generating_model_answers_with_texts(cloud, tmp_path, answer, outcome):
    here = smoke_site(cloud, tmp_path)
    here.stock("minilm", texts=("Hello", "Grüße"))
    endpoints = SimulatedEndpoints(lambda fields, tensors: answer)
    first, second = here.smoke(endpoints)
    assert (first.outcome, first.example, second.example) == (outcome, "text 1", "text 2")
    assert json.loads(endpoints.calls[1]["Body"])["text_input"] == "Grüße"


@pytest.mark.parametrize(
    ("responses", "outcome", "words"),
    [
        ((b'"scores":[0.1,0.2,0.7]', b'"scores":[0.7,0.2,0.1]'), "ok", ""),
        ((b'"scores":[0.1,0.2,0.7]',), "wrong", "got 1"),
        ((b'"scores":[0.1,0.2,0.7]', b'"scores":[0.1,0.2,0.7]'), "wrong", "0.1 for 0.7"),
        ((b'"scores":[0.1,0.2,0.7]', b'"scores":0.7'), "wrong", "got [1]"),
        ((b'"scores":[0.1,0.2,0.7]', b'"other":0.7'), "wrong", "scores is missing"),
        ((b'"scores":[0.1,0.2,0.7]', b'"error":"no ink"'), "failed", "no ink"),
    ],
)
def test_each_response_of_a_decoupled_model_is_compared(cloud, tmp_path, responses, outcome, words):
    here = smoke_site(cloud, tmp_path)
    expected = (example().outputs, example(right=RIGHT[:, ::-1]).outputs)
    here.stock("minilm", example().model_copy(update={"outputs": (), "responses": expected}))
    runtime = StreamingEndpoint(*responses)
    (result,) = here.smoke(runtime)
    assert runtime.sent == {"x": [1.0, 2.0, 3.0], "parameters": {}}
    assert (result.outcome, words in result.detail) == (outcome, True), result


@pytest.mark.parametrize("stored_as", [None, "binary/octet-stream"])
def test_asynchronous_endpoint_answers_through_the_data_bucket(cloud, tmp_path, stored_as):
    here = smoke_site(cloud, tmp_path, ASYNCHRONOUS)
    here.stock("minilm", example())
    queue = SimulatedQueue(cloud.client("s3"), lambda fields, tensors: {"scores": RIGHT}, stored_as)
    assert [result.outcome for result in here.smoke(queue)] == ["ok"]
    assert queue.request is not None
    assert queue.request["Key"].startswith("requests/tritonstack-dev-search/smoke/")
    for answer, outcome in (({"scores": -RIGHT}, "wrong"), ({"error": "who knows"}, "failed")):
        other = SimulatedQueue(cloud.client("s3"), lambda *_, answer=answer: answer, stored_as)
        assert [result.outcome for result in here.smoke(other)] == [outcome]


def test_an_idle_queue_is_awaited_and_reported(cloud, tmp_path):
    here = smoke_site(cloud, tmp_path, ASYNCHRONOUS)
    here.stock("minilm", example())
    (result,) = here.smoke(SimulatedQueue(cloud.client("s3"), lambda *_: {}, silent=True), patience_s=7)
    assert (result.outcome, here.time.now) == ("failed", 7)
    assert "s3://tritonstack-dev-data-" in result.detail
