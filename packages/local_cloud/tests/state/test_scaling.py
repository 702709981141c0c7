"""Scalable targets, policies, and activities after restarts and kills."""

import time

from packages.local_cloud.tests.sagemaker.cloud import IMAGE, a_variant, role_of

KEY = {
    "ServiceNamespace": "sagemaker",
    "ResourceId": "endpoint/e/variant/AllTraffic",
    "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
}


def create_endpoint(cloud):
    sagemaker = cloud.client("sagemaker")
    sagemaker.create_model(
        ModelName="m", ExecutionRoleArn=role_of(sagemaker), PrimaryContainer={"Image": IMAGE}
    )
    sagemaker.create_endpoint_config(EndpointConfigName="c", ProductionVariants=[a_variant("m")])
    sagemaker.create_endpoint(EndpointName="e", EndpointConfigName="c")
    eventually(lambda: counts(cloud), (1, "InService"))


def eventually(look, expected):
    deadline = time.monotonic() + 20
    while (found := look()) != expected:
        assert time.monotonic() < deadline, found
        time.sleep(0.05)


def counts(cloud):
    """Return the desired count, which a small machine may not run."""
    described = cloud.client("sagemaker").describe_endpoint(EndpointName="e")
    variant = described.get("ProductionVariants", [{}])[0]
    return variant.get("DesiredInstanceCount"), described["EndpointStatus"]


def put_policy(cloud):
    return cloud.client("application-autoscaling").put_scaling_policy(
        **KEY,
        PolicyName="p",
        PolicyType="TargetTrackingScaling",
        TargetTrackingScalingPolicyConfiguration={
            "TargetValue": 10.0,
            "PredefinedMetricSpecification": {
                "PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"
            },
        },
    )


def register(cloud, low):
    cloud.client("application-autoscaling").register_scalable_target(**KEY, MinCapacity=low, MaxCapacity=4)


def statuses(cloud):
    scaling = cloud.client("application-autoscaling")
    found = scaling.describe_scaling_activities(**KEY)["ScalingActivities"]
    return [item["StatusCode"] for item in found]


def alarm_names(cloud):
    alarms = cloud.client("cloudwatch").describe_alarms()["MetricAlarms"]
    return sorted(alarm["AlarmName"] for alarm in alarms)


def policy_alarms(cloud):
    scaling = cloud.client("application-autoscaling")
    policies = scaling.describe_scaling_policies(ServiceNamespace="sagemaker")["ScalingPolicies"]
    return sorted(alarm["AlarmName"] for policy in policies for alarm in policy["Alarms"])


def test_scaling_goes_on_after_a_restart(cloud):
    create_endpoint(cloud)
    register(cloud, 2)
    put_policy(cloud)
    eventually(lambda: (counts(cloud), statuses(cloud)), ((2, "InService"), ["Successful"]))
    before = [describe(cloud) for describe in (policy_alarms, history)]
    cloud.restart()
    eventually(lambda: counts(cloud), (2, "InService"))
    assert [describe(cloud) for describe in (policy_alarms, history)] == before
    assert alarm_names(cloud) == policy_alarms(cloud)
    register(cloud, 3)
    eventually(lambda: (counts(cloud), statuses(cloud)), ((3, "InService"), ["Successful"] * 2))


def history(cloud):
    scaling = cloud.client("application-autoscaling")
    return scaling.describe_scaling_activities(**KEY)["ScalingActivities"]
