"""Alarms, metrics, metric filters, and rules of a running cloud, with their notifications."""

import json
import time
from datetime import UTC, datetime, timedelta

import pytest
from botocore.exceptions import ClientError

PATIENCE_S = 20


@pytest.fixture
def cloudwatch(account):
    return account.client("cloudwatch")


def eventually(look, wanted=bool):
    """Poll until the result is as expected: alarms are evaluated asynchronously."""
    deadline = time.monotonic() + PATIENCE_S
    while not wanted(found := look()):
        assert time.monotonic() < deadline, f"still {found}"
        time.sleep(0.05)
    return found


def put_alarm(cloudwatch, **changes):
    settings = {
        "AlarmName": "a",
        "Namespace": "Shop",
        "MetricName": "Errors",
        "Statistic": "Sum",
        "Period": 60,
        "EvaluationPeriods": 1,
        "Threshold": 3,
        "ComparisonOperator": "GreaterThanOrEqualToThreshold",
        "TreatMissingData": "notBreaching",
    }
    cloudwatch.put_metric_alarm(
        **{key: value for key, value in (settings | changes).items() if value is not None}
    )


def alarm_of(cloudwatch):
    (alarm,) = cloudwatch.describe_alarms(AlarmNames=["a"])["MetricAlarms"]
    return alarm


def await_state(cloudwatch, state):
    return eventually(lambda: alarm_of(cloudwatch), lambda alarm: alarm["StateValue"] == state)


def await_state_after(publishing, cloudwatch, state="ALARM"):
    """Publish until the state is reached: a busy machine may not look within the short period."""

    def look():
        publishing()
        deadline = time.monotonic() + 2
        while (alarm := alarm_of(cloudwatch))["StateValue"] != state:
            if time.monotonic() > deadline:
                break
            time.sleep(0.02)
        return alarm

    return eventually(look, lambda alarm: alarm["StateValue"] == state)


def publish(cloudwatch, *values):
    data = [{"MetricName": "Errors", "Value": value} for value in values]
    cloudwatch.put_metric_data(Namespace="Shop", MetricData=data)


def queue_on(account, topic):
    sqs = account.client("sqs")
    url = sqs.create_queue(QueueName="told")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    account.client("sns").subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)
    return lambda: sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", [])


@pytest.fixture
def topic(account):
    return account.client("sns").create_topic(Name="alerts")["TopicArn"]


def test_an_alarm_goes_from_insufficient_data_to_alarm_to_ok(account, cloudwatch, topic):
    messages = queue_on(account, topic)
    put_alarm(cloudwatch, AlarmActions=[topic], AlarmDescription="too many")
    assert alarm_of(cloudwatch)["StateValue"] in {"INSUFFICIENT_DATA", "OK"}
    await_state(cloudwatch, "OK")
    rung = await_state_after(lambda: publish(cloudwatch, 1, 2, 4), cloudwatch)
    assert rung["StateReason"].startswith("Threshold Crossed: 1 datapoint [7.0 (")
    assert rung["StateTransitionedTimestamp"] == rung["StateUpdatedTimestamp"]
    (received,) = eventually(messages)
    envelope = json.loads(received["Body"])
    assert envelope["Subject"] == 'ALARM: "a" in eu-west-1'
    told = json.loads(envelope["Message"])
    assert told["NewStateValue"] == "ALARM"
    assert told["AlarmArn"] == rung["AlarmArn"]
    assert told["AWSAccountId"] == account.account_id
    assert told["Trigger"]["Statistic"] == "Sum"
    assert told["Trigger"]["Threshold"] == 3
    await_state(cloudwatch, "OK")
    history = cloudwatch.describe_alarm_history(AlarmName="a", ScanBy="TimestampAscending")[
        "AlarmHistoryItems"
    ]
    summaries = [item["HistorySummary"].split()[-3:] for item in history]
    assert summaries == [
        ["Alarm", '"a"', "created"],
        ["INSUFFICIENT_DATA", "to", "OK"],
        ["OK", "to", "ALARM"],
        ["executed", "action", topic],
        ["ALARM", "to", "OK"],
    ]


def test_filters_of_alarms_apply_together(cloudwatch):
    for name in ("a-one", "a-two", "b-one"):
        put_alarm(cloudwatch, AlarmName=name)
    cloudwatch.set_alarm_state(AlarmName="a-one", StateValue="ALARM", StateReason="a drill")

    def names(**filters):
        return {alarm["AlarmName"] for alarm in cloudwatch.describe_alarms(**filters)["MetricAlarms"]}

    assert names(AlarmNamePrefix="a-") == {"a-one", "a-two"}
    assert names(AlarmNames=["a-one", "b-one"]) == {"a-one", "b-one"}
    assert names(AlarmNamePrefix="b-", StateValue="ALARM") == set()
    assert names(AlarmTypes=["CompositeAlarm"]) == set()


def test_missing_alarms_cannot_be_deleted(cloudwatch):
    for name in ("main", "other"):
        put_alarm(cloudwatch, AlarmName=name)
    with pytest.raises(ClientError) as caught:
        cloudwatch.delete_alarms(AlarmNames=["main", "gone"])
    assert caught.value.response["Error"]["Code"] == "ResourceNotFound"
    cloudwatch.delete_alarms(AlarmNames=["main"])
    (alarm,) = cloudwatch.describe_alarms()["MetricAlarms"]
    assert alarm["AlarmName"] == "other"


@pytest.mark.parametrize("action", ["get_metric_statistics", "put_metric_data"])
def test_statistics_and_sets_of_them_are_rejected(cloudwatch, action):
    now = datetime.now(UTC)
    window = {"MetricName": "Load", "StartTime": now - timedelta(hours=1), "EndTime": now, "Period": 60}
    values = {"SampleCount": 1, "Sum": 1, "Minimum": 1, "Maximum": 1}
    data = {"MetricData": [{"MetricName": "Load", "StatisticValues": values}]}
    with pytest.raises(ClientError) as caught:
        getattr(cloudwatch, action)(Namespace="Shop", **(data if "put" in action else window))
    assert caught.value.response["Error"]["Code"] == "ValidationError"


def metric_query(name, metric, **more):
    stat = {"Metric": {"Namespace": "Shop", "MetricName": metric}, "Period": 60, "Stat": "Sum"}
    return {"Id": name, "MetricStat": stat, "ReturnData": False, **more}


def math_alarm(expression, *metrics):
    return {
        "MetricName": None,
        "Namespace": None,
        "Statistic": None,
        "Period": None,
        "Metrics": [{"Id": "value", "Expression": expression, "ReturnData": True}]
        + [metric_query(name, metric) for name, metric in metrics],
    }


def test_metric_math_triggers_alarms(account, cloudwatch, topic):
    messages = queue_on(account, topic)
    asked = math_alarm("IF(FILL(calls, 0) > 0, errors, 0)", ("calls", "Calls"), ("errors", "Errors"))
    put_alarm(cloudwatch, **asked, AlarmActions=[topic])
    publish(cloudwatch, 9)
    await_state(cloudwatch, "OK")
    # In one call, so that both are in the same period.
    data = [{"MetricName": "Errors", "Value": 9}, {"MetricName": "Calls", "Value": 1}]
    await_state_after(lambda: cloudwatch.put_metric_data(Namespace="Shop", MetricData=data), cloudwatch)
    told = json.loads(json.loads(eventually(messages)[0]["Body"])["Message"])
    assert [query["Id"] for query in told["Trigger"]["Metrics"]] == ["value", "calls", "errors"]


def test_set_alarm_state_notifies_and_lasts_until_the_next_evaluation(account, cloudwatch, topic):
    messages = queue_on(account, topic)
    put_alarm(cloudwatch, AlarmActions=[topic], TreatMissingData="missing")
    cloudwatch.set_alarm_state(AlarmName="a", StateValue="ALARM", StateReason="a drill")
    assert json.loads(json.loads(eventually(messages)[0]["Body"])["Message"])["NewStateReason"] == "a drill"
    calmed = await_state(cloudwatch, "INSUFFICIENT_DATA")
    assert "3 datapoints" in calmed["StateReason"]


def put_filter(logs, pattern='"went wrong"', name="f", **changes):
    transformation = {"metricNamespace": "Shop", "metricName": "Errors", "metricValue": "1", "unit": "Count"}
    logs.put_metric_filter(
        logGroupName="g",
        filterName=name,
        filterPattern=pattern,
        metricTransformations=[transformation | changes],
    )


def write(logs, *lines):
    events = [{"timestamp": int(time.time() * 1000), "message": line} for line in lines]
    logs.put_log_events(logGroupName="g", logStreamName="s", logEvents=events)


@pytest.fixture
def logs(account):
    logs = account.client("logs")
    logs.create_log_group(logGroupName="g")
    logs.create_log_stream(logGroupName="g", logStreamName="s")
    return logs


def test_a_metric_filter_triggers_an_alarm(logs, cloudwatch):
    put_filter(logs, defaultValue=0.0)
    put_alarm(cloudwatch, Threshold=2, TreatMissingData="missing")
    write(logs, "all is well")
    await_state(cloudwatch, "OK")
    rung = await_state_after(
        lambda: write(logs, "it went wrong", "all is well", "it went wrong again"), cloudwatch
    )
    assert "[2.0 (" in rung["StateReason"]


def test_a_log_group_takes_five_filters_with_expressions(logs):
    for number in range(5):
        put_filter(logs, r"%\d%", name=f"f{number}")
    put_filter(logs, r"%\d+%", name="f0")
    put_filter(logs, name="plain")
    with pytest.raises(ClientError, match="5 filters with expressions"):
        put_filter(logs, r"%\d%", name="f5")
