"""Recorded minutes of CloudWatch, from moto."""

from datetime import UTC, datetime, timedelta

import boto3

from tests.moto_aws import simulated_aws
from tritonstack.constructs.monitoring.monitored import Monitored, MonitoredVariant
from tritonstack.operations.scaling_simulation.history import read_history
from tritonstack.reference.hardware import INSTANCE_TYPES
from tritonstack.spec.endpoints.scaling import Scaling


def test_minutes_are_read_with_requests_and_instances():
    main = MonitoredVariant("main", INSTANCE_TYPES["ml.c7i.xlarge"], Scaling())
    monitored = Monitored("e", (main,))
    dimensions = [{"Name": "EndpointName", "Value": "e"}, {"Name": "VariantName", "Value": "main"}]
    begin = (datetime.now(UTC) - timedelta(hours=1)).replace(second=0, microsecond=0)
    courses = {0: (1, 3), 1: (2, 4)}
    """Minute -> instances and requests; nothing in the third."""
    with simulated_aws():
        cloudwatch = boto3.client(
            "cloudwatch", region_name="eu-west-1", aws_access_key_id="a", aws_secret_access_key="b"
        )
        for minute, (instances, requests) in courses.items():
            values = {"Invocations": 1.0, "InvocationsPerInstance": 1 / instances, "Invocation5XXErrors": 0.0}
            data = [
                {
                    "MetricName": name,
                    "Dimensions": dimensions,
                    "Timestamp": begin + timedelta(minutes=minute, seconds=10),
                    "Value": value,
                }
                for name, value in values.items()
                for _ in range(requests)
            ]
            cloudwatch.put_metric_data(Namespace="AWS/SageMaker", MetricData=data)
        minutes = read_history(cloudwatch, monitored, main, begin=begin, end=begin + timedelta(minutes=3))
    assert [recorded.requests for recorded in minutes] == [3.0, 4.0, 0.0]
    assert [recorded.instances for recorded in minutes] == [1.0, 2.0, None]
    assert [recorded.errors for recorded in minutes] == [0.0, 0.0, 0.0]
