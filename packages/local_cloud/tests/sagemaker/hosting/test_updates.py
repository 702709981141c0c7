"""Updates in steps through boto3: rollback on alarms, reported stages, and no failed request."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from packages.local_cloud.tests.sagemaker.cloud import eventually, run_cloud
from tritonstack_local.settings import TimeScale

ALARM = "latency"
CANARY = {
    "Type": "CANARY",
    "CanarySize": {"Type": "CAPACITY_PERCENT", "Value": 50},
    "WaitIntervalInSeconds": 60,
}
# On this time scale an hour lasts 0.12 s: enough to poll while an alarm is triggered.
LONG = 3600


def policy(routing, *, bake=0, alarms=(ALARM,), **fields):
    named = {"AutoRollbackConfiguration": {"Alarms": [{"AlarmName": name} for name in alarms]}}
    return {
        "BlueGreenUpdatePolicy": {
            "TrafficRoutingConfiguration": routing,
            "TerminationWaitInSeconds": bake,
            **fields,
        },
        **(named if alarms else {}),
    }


@pytest.fixture
def endpoint(cloud):
    ready(cloud)
    return cloud


def ready(cloud):
    for name in ("old", "new"):
        cloud.model(name, environment={"FAKE_ANSWER": name})
        cloud.config(name, InitialInstanceCount=2)
    cloud.client("cloudwatch").put_metric_alarm(
        AlarmName=ALARM,
        Namespace="AWS/SageMaker",
        MetricName="ModelLatency",
        Statistic="Average",
        Period=60,
        EvaluationPeriods=1,
        Threshold=1,
        ComparisonOperator="GreaterThanThreshold",
        TreatMissingData="ignore",  # it has no data, so it keeps the state set by a test
    )
    cloud.sagemaker.create_endpoint(EndpointName="e", EndpointConfigName="old")
    assert cloud.settled("e")["EndpointStatus"] == "InService"


def fire(cloud, state="ALARM"):
    cloud.client("cloudwatch").set_alarm_state(AlarmName=ALARM, StateValue=state, StateReason="a test")


def asked(cloud):
    return cloud.ask()


@contextmanager
def asked_all_the_time(cloud):
    """Answers as they come; a request that fails fails the test."""
    ended, answers = threading.Event(), []

    def caller():
        while not ended.is_set():
            answers.append(asked(cloud))

    with ThreadPoolExecutor(3) as pool:
        callers = [pool.submit(caller) for _ in range(3)]
        try:
            yield answers
        finally:
            ended.set()
        for one in callers:
            one.result()


def update(cloud, config, to="new"):
    cloud.update(to, DeploymentConfig=config)


@contextmanager
def statuses_of(cloud):
    """Return each status of the endpoint in order; polling could miss short ones."""
    statuses, endpoints = [], cloud.app.tables["endpoints"]

    def note():
        statuses.extend(record.status for _, record in endpoints.everywhere() if record.name == "e")

    endpoints.on_change = note
    yield statuses


def told(cloud):
    """Return the stage of the pending variant, and its instance count."""
    (variant,) = cloud.described()["PendingDeploymentSummary"]["ProductionVariants"]
    stages = [f"{stage['Status']}: {stage['StatusMessage']}" for stage in variant.get("VariantStatus", [])]
    return "".join(stages), variant["CurrentInstanceCount"]


def baking(cloud, words):
    eventually(lambda: words in told(cloud)[0])
    return told(cloud)


LINEAR = {
    "Type": "LINEAR",
    "LinearStepSize": {"Type": "INSTANCE_COUNT", "Value": 1},
    "WaitIntervalInSeconds": LONG,
}
ROLLING = {
    "RollingUpdatePolicy": {
        "MaximumBatchSize": {"Type": "INSTANCE_COUNT", "Value": 1},
        "WaitIntervalInSeconds": 60,
    },
    "AutoRollbackConfiguration": {"Alarms": [{"AlarmName": ALARM}]},
}


@pytest.mark.parametrize(
    "config",
    [policy({"Type": "ALL_AT_ONCE", "WaitIntervalInSeconds": 0}, bake=60), policy(CANARY), ROLLING],
    ids=["all at once", "canary", "rolling"],
)
def test_an_update_in_steps_fails_no_request(endpoint, tritons, config):
    with asked_all_the_time(endpoint) as answers:
        update(endpoint, config)
        described = endpoint.settled("e")
    assert described["EndpointConfigName"] == "new", described.get("FailureReason")
    assert described["LastDeploymentConfig"] == config
    assert described["ProductionVariants"][0]["CurrentInstanceCount"] == 2
    assert set(answers) <= {"old", "new"}
    assert asked(endpoint) == "new"
    assert [server.running for server in tritons.started] == [False, False, True, True]


def test_each_stage_is_reported_and_shifts_traffic(tmp_path, tritons):
    with run_cloud(tmp_path, tritons, time_scale=TimeScale(minute_s=0.5)) as cloud:
        ready(cloud)
        update(cloud, policy({**CANARY, "WaitIntervalInSeconds": 90}, bake=91))
        stage, count = baking(cloud, "90 seconds")
        assert ("canary capacity of 1" in stage, count) == (True, 2)
        assert sorted(asked(cloud) for _ in range(4)) == ["new", "new", "old", "old"]
        stage, count = baking(cloud, "91 seconds")
        assert ("full capacity of 2" in stage, count) == (True, 2)
        assert {asked(cloud) for _ in range(4)} == {"new"}
        assert "PendingDeploymentSummary" not in cloud.settled("e")


@pytest.mark.parametrize(
    "config", [policy({**CANARY, "WaitIntervalInSeconds": LONG}), ROLLING], ids=["canary", "rolling"]
)
def test_an_alarm_rolls_back_an_update_without_a_failed_request(endpoint, tritons, config):
    with asked_all_the_time(endpoint):
        fire(endpoint)
        with statuses_of(endpoint) as statuses:
            update(endpoint, config)
            described = endpoint.settled("e")
    assert list(dict.fromkeys(statuses))[-2:] == ["RollingBack", "InService"]
    assert described["EndpointConfigName"] == "old"
    assert "ALARM state: latency." in described["FailureReason"]
    assert asked(endpoint) == "old"
    assert sum(server.running for server in tritons.started) == 2
    fire(endpoint, "OK")
    update(endpoint, config)
    assert "FailureReason" not in endpoint.settled("e")
    assert asked(endpoint) == "new"


def test_an_alarm_that_does_not_exist_fails_the_update_before_it_begins(endpoint, tritons):
    update(endpoint, policy(CANARY, alarms=(ALARM, "nobody")))
    described = endpoint.settled("e")
    assert described["EndpointConfigName"] == "old"
    assert "nobody" in described["FailureReason"]
    assert len(tritons.started) == 2


def test_an_update_beyond_its_timeout_is_rolled_back(endpoint):
    update(endpoint, policy(LINEAR, MaximumExecutionTimeoutInSeconds=600))
    assert "MaximumExecutionTimeoutInSeconds, 600 s" in endpoint.settled("e")["FailureReason"]
    assert asked(endpoint) == "old"
