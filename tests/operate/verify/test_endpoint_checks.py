"""Every kind of endpoint passes if it runs as configured; each single difference is reported."""

from typing import Any

import pytest

from tests.operate.verify.verified_endpoint import ENDPOINTS, expected, modified, running
from tritonstack.operate.verify.checks import PropertyComparison
from tritonstack.operate.verify.endpoint_checks import endpoint_checks, limits
from tritonstack.operate.verify.live import LiveEndpoint

PLAIN = "tritonstack-sample-endpoint-plain"
COMPARED = "tritonstack-every-endpoint-compared"
COMPONENT = "tritonstack-every-endpoint-component"
SHADOWED = "tritonstack-every-endpoint-shadowed"
QUEUED = "tritonstack-every-endpoint-queued"
NAME = "tritonstack-sample-plain"
TARGET = f"endpoint/{NAME}/variant/main"


def failures(stack: str, live: LiveEndpoint) -> list[str]:
    return [
        f"{check.aspect}: {failure}"
        for check in endpoint_checks(expected(stack), live)
        for failure in check.failures
    ]


@pytest.mark.parametrize(
    "member",
    [
        "AsyncInferenceConfig",
        "DataCaptureConfig",
        "ExplainerConfig",
        "ManagedInstanceScaling",
        "ServerlessConfig",
        "ShadowProductionVariants",
        "VpcConfig",
    ],
)
def test_a_member_that_no_service_adds_is_a_difference(member):
    comparison = PropertyComparison()
    comparison.compare({"Name": "x"}, {"Name": "x", "Arn": "added", member: {"Own": "value"}}, "")
    assert [(difference.path, difference.found) for difference in comparison.differences] == [
        (member, {"Own": "value"})
    ]


@pytest.mark.parametrize("stack", ENDPOINTS)
def test_an_endpoint_that_runs_as_configured_passes(stack):
    endpoint = expected(stack)
    checks = endpoint_checks(endpoint, running(endpoint))
    assert [failure for check in checks for failure in check.failures] == []
    assert [note for check in checks for note in check.notes] == []
    assert sum(check.skipped for check in checks) == 0
    assert sum(check.compared for check in checks) > 100


CONFIGURED, RUNNING = "config/ProductionVariants", "described/ProductionVariants"
CONTAINER, COPY = "models/main/PrimaryContainer", "component/Specification"
TRACKING = f"policies/{NAME}-main-invocations-per-instance"
LEAST_MEMORY = "ComputeResourceRequirements/MinMemoryRequiredInMb"
DEVIATIONS: list[tuple[str, str, Any, str]] = [
    # by hand or by SageMaker: the configuration
    (PLAIN, "described/EndpointConfigName", "by-hand", "on its previous configuration: alarm fired"),
    (PLAIN, "described/EndpointStatus", "Updating", "endpoint: an update is in progress (Updating)"),
    (PLAIN, "described/EndpointStatus", "RollingBack", "endpoint: an update is being rolled back"),
    (PLAIN, "described", None, "endpoint: endpoint tritonstack-sample-plain does not exist"),
    (PLAIN, "config", None, "configuration: its active configuration has been deleted"),
    (
        PLAIN,
        f"{CONFIGURED}/0/InstanceType",
        "ml.m5.large",
        "main: InstanceType is ml.m5.large, expected ml.c7i",
    ),
    (PLAIN, f"{CONFIGURED}/0/VolumeSizeInGB", 500, "configuration: main: VolumeSizeInGB is 500"),
    (PLAIN, f"{CONFIGURED}/0/RoutingConfig", None, "configuration: main: RoutingConfig is missing"),
    (PLAIN, "config/AsyncInferenceConfig", {"x": 1}, "configuration: AsyncInferenceConfig exists"),
    (COMPARED, f"{CONFIGURED}/1", None, "configuration: ProductionVariants[challenger] is missing"),
    (COMPARED, f"{CONFIGURED}/1/InitialVariantWeight", 0.9, "challenger: InitialVariantWeight is"),
    (SHADOWED, "config/ShadowProductionVariants", None, "configuration: ShadowProductionVariants is missing"),
    (SHADOWED, "described/DataCaptureConfig/CaptureStatus", "Stopped", "data capture is Stopped"),
    (QUEUED, "config/AsyncInferenceConfig/OutputConfig/S3OutputPath", "s3://x", "S3OutputPath is s3://x"),
    # what it serves
    (
        PLAIN,
        f"{CONTAINER}/ModelDataUrl",
        f"s3://b/{'cd' * 32}/m",
        "ModelDataUrl is s3://b/cdcdcdcdcdcd/m, expec",
    ),
    (
        PLAIN,
        f"{CONTAINER}/Environment/SAGEMAKER_TRITON_PING_MODE",
        "live",
        "PING_MODE is live, expected ready",
    ),
    (PLAIN, "models/main/ExecutionRoleArn", "arn:other", "models: main: ExecutionRoleArn is arn:other"),
    (PLAIN, "models/main/EnableNetworkIsolation", None, "models: main: EnableNetworkIsolation is missing"),
    (COMPARED, "models/main/VpcConfig/Subnets", ["subnet-9"], "models: main: VpcConfig.Subnets is subnet-9"),
    (PLAIN, "models/main", None, "models: main: its model has been deleted"),
    (PLAIN, f"{RUNNING}/0/DeployedImages/0/SpecifiedImage", "other:1", "its instances run image other:1"),
    # machines and traffic
    (PLAIN, f"{RUNNING}/0/DesiredInstanceCount", 7, "machines: main: 7 instances, expected 2"),
    (PLAIN, f"{RUNNING}/0/CurrentInstanceCount", 0, "machines: main: 0 of 2 instances"),
    (COMPARED, f"{RUNNING}/1/CurrentWeight", 0.5, "machines: challenger: its weight is 0.5"),
    # scaling
    (PLAIN, f"targets|{TARGET}|MaxCapacity", 60, "scaling: main scales from 2 to 60, expected 2 to 6"),
    (PLAIN, f"targets|{TARGET}", None, "scaling: main: not registered for scaling"),
    (PLAIN, f"targets|{TARGET}|SuspendedState", {"DynamicScalingInSuspended": True}, "scaling is suspended"),
    (PLAIN, "targets|endpoint/x/variant/other", {"MinCapacity": 1}, "scaling: other: registered for scaling"),
    (
        PLAIN,
        f"schedules|{TARGET}",
        [{"ScheduledActionName": "night"}],
        "scaling: main: schedule[night] exists",
    ),
    (
        PLAIN,
        f"{TRACKING}/TargetTrackingScalingPolicyConfiguration/TargetValue",
        5,
        "TargetValue is 5, expected 9",
    ),
    (PLAIN, TRACKING, None, "is missing"),
    # alarms
    (PLAIN, f"alarms/{NAME}-latency-p99/Threshold", 1e9, f"alarms: {NAME}-latency-p99: Threshold is 1"),
    (PLAIN, f"alarms/{NAME}-latency-p99/ActionsEnabled", False, "ActionsEnabled is False, expected True"),
    (PLAIN, f"alarms/{NAME}-server-errors", None, f"alarms: alarm {NAME}-server-errors"),
    (PLAIN, f"alarms/{NAME}-server-errors/StateValue", "ALARM", f"health: {NAME}-server-errors is in ALARM"),
    (PLAIN, f"alarms/{NAME}-server-errors/Dimensions/0/Value", "x", "Dimensions["),
    # components
    (COMPONENT, "component", None, "component: inference component"),
    (COMPONENT, "component/InferenceComponentStatus", "Failed", "component: its status is Failed"),
    (COMPONENT, "component/RuntimeConfig/DesiredCopyCount", 9, "component: 9 copies, expected 0 to 3"),
    (
        COMPONENT,
        f"{COPY}/{LEAST_MEMORY}",
        1,
        "component: Specification.ComputeResourceRequirements.MinMemory",
    ),
    (COMPONENT, "models/inference component/PrimaryContainer/Image", "x", "inference component: Image is x"),
]


@pytest.mark.parametrize(("stack", "path", "value", "words"), DEVIATIONS, ids=lambda item: str(item)[:60])
def test_each_deviation_is_found_and_reported(stack, path, value, words):
    live = modified(running(expected(stack)), path, value)
    if path.endswith("EndpointConfigName"):
        live = modified(live, "described/FailureReason", "alarm fired")
    assert any(words in failure for failure in failures(stack, live)), failures(stack, live)


@pytest.mark.parametrize(
    ("path", "value", "aspect", "note"),
    [
        ("described/EndpointStatus", "SystemUpdating", "endpoint", "SageMaker is maintaining its instances"),
        ("described/FailureReason", "no capacity", "endpoint", "an update failed: no capacity"),
        (f"{RUNNING}/0/CurrentInstanceCount", 1, "machines", "main: 1 of 2"),
        (
            "described/LastDeploymentConfig/BlueGreenUpdatePolicy/TerminationWaitInSeconds",
            0,
            "rollout",
            "BlueGreenUpdatePolicy.Termination",
        ),
    ],
)
def test_differences_that_no_template_requested_are_notes(path, value, aspect, note):
    live = modified(running(expected(PLAIN)), path, value)
    (check,) = (check for check in endpoint_checks(expected(PLAIN), live) if check.aspect == aspect)
    assert check.passed
    assert note in check.notes[0]


def test_a_custom_image_must_have_its_digest():
    own = f"111111111111.dkr.ecr.eu-west-1.amazonaws.com/t/serving@sha256:{'a' * 64}"
    endpoint = expected(PLAIN)
    endpoint.models["main"]["PrimaryContainer"]["Image"] = own  # type: ignore[index]
    live = running(endpoint)
    assert failures_of(endpoint, live) == []
    other = own.replace("a" * 64, "b" * 64)
    path = "described/ProductionVariants/0/DeployedImages/0/ResolvedImage"
    assert failures_of(endpoint, modified(live, path, other)) == ["models"]


def failures_of(endpoint: Any, live: LiveEndpoint) -> list[str]:
    return [check.aspect for check in endpoint_checks(endpoint, live) if not check.passed]


def test_only_limits_set_by_a_schedule_are_accepted():
    endpoint = expected(PLAIN)
    action = {
        "ScheduledActionName": "night",
        "Schedule": "cron(0 1 * * ? *)",
        "ScalableTargetAction": {"MinCapacity": 1, "MaxCapacity": 3},
    }
    endpoint.targets[TARGET]["ScheduledActions"] = [action]  # type: ignore[index]
    live = running(endpoint)
    assert limits(endpoint, "main") == (1, 6)
    at_night = modified(
        modified(live, f"targets|{TARGET}|MinCapacity", 1), f"targets|{TARGET}|MaxCapacity", 3
    )
    assert failures_of(endpoint, at_night) == []
    assert failures_of(endpoint, modified(live, f"targets|{TARGET}|MinCapacity", 1)) == ["scaling"]
    assert failures_of(endpoint, modified(live, f"schedules|{TARGET}", [])) == ["scaling"]
    later = {**action, "Schedule": "cron(0 5 * * ? *)"}
    assert failures_of(endpoint, modified(live, f"schedules|{TARGET}", [later])) == ["scaling"]


@pytest.mark.parametrize(
    ("expected", "actual", "same"),
    [
        (1, "1.0", True),
        ("300", 300, True),
        (True, "true", True),
        # The container reads the letters of a variable.
        ("1", "1.0", False),
        ("1000", "1_000", False),
        # Without a synthesized template, CloudFormation's stored one is expected.
        ("J?rgen", "Jürgen", True),
        ("Jürgen", "J?rgen", False),
    ],
)
def test_numbers_compare_by_value_and_texts_by_spelling(expected, actual, same):
    comparison = PropertyComparison()
    comparison.compare({"Environment": {"X": expected}}, {"Environment": {"X": actual}}, "")
    assert (not comparison.differences) is same
