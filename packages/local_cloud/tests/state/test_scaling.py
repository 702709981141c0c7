"""Scalable targets, policies, and activities after a restart."""

from packages.local_cloud.tests.sagemaker.cloud import IMAGE, a_variant, eventually, role_of

TARGET = {
    "ServiceNamespace": "sagemaker",
    "ResourceId": "endpoint/e/variant/AllTraffic",
    "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
}
METRIC = {"PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"}


class Scaled:
    """An endpoint and its target, as clients see them."""

    def __init__(self, cloud):
        names = ("sagemaker", "application-autoscaling", "cloudwatch")
        self.sagemaker, self.scaling, self.cloudwatch = map(cloud.client, names)

    def state(self):
        """Return the desired count, which a small machine may not run, and the status of each activity."""
        described = self.sagemaker.describe_endpoint(EndpointName="e")
        (variant,) = described.get("ProductionVariants", [{}])
        statuses = [activity["StatusCode"] for activity in self.activities()]
        return variant.get("DesiredInstanceCount"), described["EndpointStatus"], statuses

    def activities(self):
        return self.scaling.describe_scaling_activities(**TARGET)["ScalingActivities"]

    def register(self, low):
        self.scaling.register_scalable_target(**TARGET, MinCapacity=low, MaxCapacity=4)

    def policy_alarms(self):
        (policy,) = self.scaling.describe_scaling_policies(ServiceNamespace="sagemaker")["ScalingPolicies"]
        return sorted(alarm["AlarmName"] for alarm in policy["Alarms"])


def test_scaling_goes_on_after_a_restart(cloud):
    scaled = Scaled(cloud)
    role, container = role_of(scaled.sagemaker), {"Image": IMAGE}
    scaled.sagemaker.create_model(ModelName="m", ExecutionRoleArn=role, PrimaryContainer=container)
    scaled.sagemaker.create_endpoint_config(EndpointConfigName="c", ProductionVariants=[a_variant("m")])
    scaled.sagemaker.create_endpoint(EndpointName="e", EndpointConfigName="c")
    eventually(lambda: scaled.state() == (1, "InService", []))
    scaled.register(2)
    configuration = {"TargetValue": 10.0, "PredefinedMetricSpecification": METRIC}
    scaled.scaling.put_scaling_policy(
        **TARGET,
        PolicyName="p",
        PolicyType="TargetTrackingScaling",
        TargetTrackingScalingPolicyConfiguration=configuration,
    )
    eventually(lambda: scaled.state() == (2, "InService", ["Successful"]))
    before = scaled.policy_alarms(), scaled.activities()
    cloud.restart()
    scaled = Scaled(cloud)
    eventually(lambda: scaled.state() == (2, "InService", ["Successful"]))
    assert (scaled.policy_alarms(), scaled.activities()) == before
    alarms = scaled.cloudwatch.describe_alarms()["MetricAlarms"]
    assert sorted(alarm["AlarmName"] for alarm in alarms) == before[0]
    scaled.register(3)
    eventually(lambda: scaled.state() == (3, "InService", ["Successful"] * 2))
