"""SNS, CloudWatch Logs, CloudWatch, and Application Auto Scaling resources."""

import json

from packages.local_cloud.tests.cloudformation.stacks import resource

ALARM = {
    "MetricName": "m",
    "Namespace": "n",
    "Statistic": "Sum",
    "Period": "60",
    "Threshold": "5",
    "EvaluationPeriods": 1,
    "ComparisonOperator": "GreaterThanThreshold",
}


def test_a_topic_with_its_policy_and_subscription(stack):
    topic = resource("AWS::SNS::Topic", TopicName="t", DisplayName="one", Tags=[{"Key": "a", "Value": "1"}])
    document = {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Principal": "*", "Action": "sns:Publish", "Resource": {"Ref": "Topic"}}
        ],
    }
    policy = resource("AWS::SNS::TopicPolicy", Topics=[{"Ref": "Topic"}], PolicyDocument=document)
    subscription = resource(
        "AWS::SNS::Subscription", TopicArn={"Ref": "Topic"}, Protocol="email", Endpoint="a@example.com"
    )
    stack.create({"Topic": topic, "Policy": policy, "Mail": subscription})
    sns = stack.account.client("sns")
    arn = stack.physical_ids()["Topic"]

    def attributes():
        return sns.get_topic_attributes(TopicArn=arn)["Attributes"]

    assert attributes()["DisplayName"] == "one"
    assert json.loads(attributes()["Policy"])["Statement"][0]["Resource"] == arn
    assert [item["Endpoint"] for item in sns.list_subscriptions()["Subscriptions"]] == ["a@example.com"]

    changed = resource("AWS::SNS::Topic", TopicName="t", Tags=[{"Key": "b", "Value": "2"}])
    assert stack.update({"Topic": changed}) == "UPDATE_COMPLETE"
    assert attributes()["DisplayName"] == ""
    assert json.loads(attributes()["Policy"])["Id"] == "__default_policy_ID"
    assert sns.list_subscriptions()["Subscriptions"] == []
    assert sns.list_tags_for_resource(ResourceArn=arn)["Tags"] == [{"Key": "b", "Value": "2"}]
    assert stack.delete() == "DELETE_COMPLETE"
    assert sns.list_topics()["Topics"] == []


def test_a_log_group_with_a_metric_filter(stack):
    encrypted = {"LogGroupName": "/g", "KmsKeyId": "arn:aws:kms:eu-west-1:111122223333:key/k"}
    group = {**encrypted, "RetentionInDays": "7", "Tags": [{"Key": "a", "Value": "1"}]}
    transformation = {
        "MetricName": "m",
        "MetricNamespace": "n",
        "MetricValue": "1",
        "DefaultValue": "0",
    }
    filtered = resource(
        "AWS::Logs::MetricFilter",
        LogGroupName={"Ref": "G"},
        FilterPattern="ERROR",
        MetricTransformations=[transformation],
    )
    assert stack.create({"G": resource("AWS::Logs::LogGroup", **group), "F": filtered}) == "CREATE_COMPLETE"
    logs = stack.account.client("logs")
    (shown,) = logs.describe_log_groups()["logGroups"]
    assert (shown["retentionInDays"], shown["kmsKeyId"]) == (7, encrypted["KmsKeyId"])
    found = logs.describe_metric_filters(logGroupName="/g")["metricFilters"][0]
    assert found["filterName"] == stack.physical_ids()["F"]
    assert found["metricTransformations"][0]["defaultValue"] == 0

    assert stack.update({"G": resource("AWS::Logs::LogGroup", **encrypted)}) == "UPDATE_COMPLETE"
    assert "retentionInDays" not in logs.describe_log_groups()["logGroups"][0]
    assert logs.describe_metric_filters(logGroupName="/g")["metricFilters"] == []
    plain = resource("AWS::Logs::LogGroup", LogGroupName="/g")
    assert stack.update({"G": plain}) == "UPDATE_ROLLBACK_COMPLETE"
    assert "KmsKeyId cannot be changed" in stack.reasons()


def test_alarms_and_a_dashboard(stack):
    alarm = resource("AWS::CloudWatch::Alarm", AlarmName="a", **ALARM)
    dashboard = resource("AWS::CloudWatch::Dashboard", DashboardName="d", DashboardBody='{"widgets": []}')
    stack.create({"A": alarm, "D": dashboard})
    cloudwatch = stack.account.client("cloudwatch")
    found = cloudwatch.describe_alarms()
    assert [(item["AlarmName"], item["Threshold"]) for item in found["MetricAlarms"]] == [("a", 5.0)]
    assert cloudwatch.get_dashboard(DashboardName="d")["DashboardBody"] == '{"widgets": []}'

    changed = resource("AWS::CloudWatch::Alarm", AlarmName="a", **{**ALARM, "Threshold": 6})
    assert stack.update({"A": changed}) == "UPDATE_COMPLETE"
    found = cloudwatch.describe_alarms()
    assert [item["Threshold"] for item in found["MetricAlarms"]] == [6.0]
    assert cloudwatch.list_dashboards()["DashboardEntries"] == []


KEY = {
    "ServiceNamespace": "sagemaker",
    "ResourceId": "endpoint/e/variant/v",
    "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
}


def target(maximum, *actions, **properties):
    kind = "AWS::ApplicationAutoScaling::ScalableTarget"
    limits = {"MinCapacity": "1", "MaxCapacity": maximum}
    return resource(kind, **KEY, **limits, ScheduledActions=list(actions), **properties)


def scaling_policy(name, kind="TargetTrackingScaling", **configuration):
    return resource(
        "AWS::ApplicationAutoScaling::ScalingPolicy",
        PolicyName=name,
        PolicyType=kind,
        ScalingTargetId={"Ref": "T"},
        **{f"{kind}PolicyConfiguration": configuration},
    )


def predefined(metric):
    return {"PredefinedMetricSpecification": {"PredefinedMetricType": metric}}


PER_INSTANCE = "SageMakerVariantInvocationsPerInstance"


def test_scaling(stack):
    def scheduled(maximum, *names):
        tags = [{"Key": name, "Value": str(maximum)} for name in names]
        daily = {"Schedule": "cron(0 1 * * ? *)", "ScalableTargetAction": {}}
        return target(maximum, *({"ScheduledActionName": name, **daily} for name in names), Tags=tags)

    def policy(value):
        return scaling_policy("p", TargetValue=value, **predefined(PER_INSTANCE))

    stack.create({"T": scheduled(3, "night", "day"), "P": policy("10")})
    scaling = stack.account.client("application-autoscaling")
    namespace = {"ServiceNamespace": "sagemaker"}
    assert stack.physical_ids()["T"] == "|".join((KEY["ResourceId"], KEY["ScalableDimension"], "sagemaker"))
    assert len(scaling.describe_scheduled_actions(**namespace)["ScheduledActions"]) == 2

    assert stack.update({"T": scheduled("4", "night"), "P": policy(20)}) == "UPDATE_COMPLETE"
    (found,) = scaling.describe_scalable_targets(**namespace)["ScalableTargets"]
    assert found["MaxCapacity"] == 4
    assert scaling.list_tags_for_resource(ResourceARN=found["ScalableTargetARN"])["Tags"] == {"night": "4"}
    found = scaling.describe_scaling_policies(**namespace)["ScalingPolicies"]
    assert [item["TargetTrackingScalingPolicyConfiguration"]["TargetValue"] for item in found] == [20.0]
    actions = scaling.describe_scheduled_actions(**namespace)["ScheduledActions"]
    assert [item["ScheduledActionName"] for item in actions] == ["night"]

    assert stack.delete() == "DELETE_COMPLETE"
    assert scaling.describe_scalable_targets(**namespace)["ScalableTargets"] == []
    assert scaling.describe_scaling_policies(**namespace)["ScalingPolicies"] == []
    assert scaling.describe_scheduled_actions(**namespace)["ScheduledActions"] == []


def test_a_rule_with_its_targets(stack):
    def rule(*targets, **properties):
        return resource(
            "AWS::Events::Rule",
            Name="failed",
            EventPattern={"source": ["aws.sagemaker"], "detail": {"EndpointName": [{"prefix": "demo-"}]}},
            Targets=[{"Id": name, "Arn": {"Ref": "Topic"}} for name in targets],
            **properties,
        )

    topic = {"Topic": resource("AWS::SNS::Topic")}
    made = rule("a", "b", Description="one", Tags=[{"Key": "a", "Value": "1"}])
    arn = {"Arn": {"Value": {"Fn::GetAtt": ["Rule", "Arn"]}}}
    assert stack.create({**topic, "Rule": made}, Outputs=arn) == "CREATE_COMPLETE"
    events = stack.account.client("events")
    found = events.describe_rule(Name=stack.physical_ids()["Rule"])
    assert (found["Description"], found["State"], found["Arn"]) == (
        "one",
        "ENABLED",
        stack.outputs()["Arn"],
    )
    assert json.loads(found["EventPattern"])["detail"]["EndpointName"] == [{"prefix": "demo-"}]
    targets = events.list_targets_by_rule(Rule="failed")["Targets"]
    assert {target["Arn"] for target in targets} == {stack.physical_ids()["Topic"]}

    changed = rule("b", State="DISABLED", Tags=[{"Key": "b", "Value": "2"}])
    assert stack.update({**topic, "Rule": changed}) == "UPDATE_COMPLETE"
    found = events.describe_rule(Name="failed")
    assert (found.get("Description", ""), found["State"]) == ("", "DISABLED")
    assert [item["Id"] for item in events.list_targets_by_rule(Rule="failed")["Targets"]] == ["b"]
    assert events.list_tags_for_resource(ResourceARN=found["Arn"])["Tags"] == [{"Key": "b", "Value": "2"}]
    assert stack.delete() == "DELETE_COMPLETE"
    assert events.list_rules()["Rules"] == []


def test_step_scaling_all_metrics_and_scheduled_actions(stack):
    night = {
        "ScheduledActionName": "night",
        "Schedule": "cron(0 22 ? * MON,TUE *)",
        "Timezone": "Europe/Berlin",
        "ScalableTargetAction": {"MinCapacity": "0", "MaxCapacity": 1},
    }

    def tracking(name, specification):
        return scaling_policy(name, TargetValue="7", ScaleInCooldown="300", **specification)

    steps = {
        "AdjustmentType": "ChangeInCapacity",
        "Cooldown": "60",
        "MetricAggregationType": "Average",
        "StepAdjustments": [
            {"MetricIntervalLowerBound": "0", "MetricIntervalUpperBound": 20, "ScalingAdjustment": "1"},
            {"MetricIntervalLowerBound": 20, "ScalingAdjustment": 2},
        ],
    }
    measured = {
        "MetricName": "GPUUtilization",
        "Namespace": "/aws/sagemaker/Endpoints",
        "Statistic": "Average",
    }
    names = ("SageMakerVariantConcurrentRequestsPerModelHighResolution", PER_INSTANCE)
    resources = {
        "T": target(4, night),
        "Steps": scaling_policy("steps", "StepScaling", **steps),
        "Gpu": tracking("gpu", {"CustomizedMetricSpecification": measured}),
        **{f"P{index}": tracking(name, predefined(name)) for index, name in enumerate(names)},
        "Out": resource("AWS::CloudWatch::Alarm", AlarmName="out", AlarmActions=[{"Ref": "Steps"}], **ALARM),
    }
    assert stack.create(resources) == "CREATE_COMPLETE", stack.reasons()
    scaling = stack.account.client("application-autoscaling")
    found = scaling.describe_scaling_policies(ServiceNamespace="sagemaker")["ScalingPolicies"]
    policies = {item["PolicyName"]: item for item in found}
    adjustments = policies["steps"]["StepScalingPolicyConfiguration"]["StepAdjustments"]
    assert adjustments == [
        {"MetricIntervalLowerBound": 0.0, "MetricIntervalUpperBound": 20.0, "ScalingAdjustment": 1},
        {"MetricIntervalLowerBound": 20.0, "ScalingAdjustment": 2},
    ]
    kept = "TargetTrackingScalingPolicyConfiguration"
    assert policies["gpu"][kept]["CustomizedMetricSpecification"]["MetricName"] == "GPUUtilization"
    assert {policies[name][kept]["TargetValue"] for name in names} == {7.0}
    (action,) = scaling.describe_scheduled_actions(ServiceNamespace="sagemaker")["ScheduledActions"]
    assert (action["Timezone"], action["ScalableTargetAction"]) == (
        "Europe/Berlin",
        {"MinCapacity": 0, "MaxCapacity": 1},
    )
    (alarm,) = stack.account.client("cloudwatch").describe_alarms(AlarmNames=["out"])["MetricAlarms"]
    assert alarm["AlarmActions"] == [policies["steps"]["PolicyARN"]]
