"""SNS, CloudWatch Logs, CloudWatch and Application Auto Scaling."""

import json

from tests.local_cloud.cloudformation.stacks import resource

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
    group = {"LogGroupName": "/g", "RetentionInDays": "7", "Tags": [{"Key": "a", "Value": "1"}]}
    transformation = {
        "MetricName": "m",
        "MetricNamespace": "n",
        "MetricValue": "$v",
        "DefaultValue": "0",
    }
    filtered = resource(
        "AWS::Logs::MetricFilter",
        LogGroupName={"Ref": "G"},
        FilterPattern="ERROR",
        MetricTransformations=[transformation],
    )
    stack.create({"G": resource("AWS::Logs::LogGroup", **group), "F": filtered})
    logs = stack.account.client("logs")
    assert logs.describe_log_groups()["logGroups"][0]["retentionInDays"] == 7
    found = logs.describe_metric_filters(logGroupName="/g")["metricFilters"][0]
    assert found["filterName"] == stack.physical_ids()["F"]
    assert found["metricTransformations"][0]["defaultValue"] == 0

    assert stack.update({"G": resource("AWS::Logs::LogGroup", LogGroupName="/g")}) == "UPDATE_COMPLETE"
    assert "retentionInDays" not in logs.describe_log_groups()["logGroups"][0]
    assert logs.describe_metric_filters(logGroupName="/g")["metricFilters"] == []


def test_alarms_and_a_dashboard(stack):
    alarm = resource("AWS::CloudWatch::Alarm", AlarmName="a", **ALARM)
    composite = resource(
        "AWS::CloudWatch::CompositeAlarm",
        AlarmName="c",
        AlarmRule={"Fn::Sub": 'ALARM("${A.Arn}")'},
        ActionsSuppressorWaitPeriod=1,
    )
    dashboard = resource("AWS::CloudWatch::Dashboard", DashboardName="d", DashboardBody='{"widgets": []}')
    stack.create({"A": alarm, "C": composite, "D": dashboard})
    cloudwatch = stack.account.client("cloudwatch")
    found = cloudwatch.describe_alarms()
    assert [(item["AlarmName"], item["Threshold"]) for item in found["MetricAlarms"]] == [("a", 5.0)]
    arn = found["MetricAlarms"][0]["AlarmArn"]
    assert [item["AlarmRule"] for item in found["CompositeAlarms"]] == [f'ALARM("{arn}")']
    assert cloudwatch.get_dashboard(DashboardName="d")["DashboardBody"] == '{"widgets": []}'

    changed = resource("AWS::CloudWatch::Alarm", AlarmName="a", **{**ALARM, "Threshold": 6})
    assert stack.update({"A": changed}) == "UPDATE_COMPLETE"
    found = cloudwatch.describe_alarms()
    assert [item["Threshold"] for item in found["MetricAlarms"]] == [6.0]
    assert found["CompositeAlarms"] == []
    assert cloudwatch.list_dashboards()["DashboardEntries"] == []


def test_scaling(stack):
    key = {
        "ServiceNamespace": "sagemaker",
        "ResourceId": "endpoint/e/variant/v",
        "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
    }

    def target(maximum, *actions):
        scheduled = [
            {"ScheduledActionName": name, "Schedule": "cron(0 1 * * ? *)", "ScalableTargetAction": {}}
            for name in actions
        ]
        return resource(
            "AWS::ApplicationAutoScaling::ScalableTarget",
            **key,
            MinCapacity="1",
            MaxCapacity=maximum,
            ScheduledActions=scheduled,
        )

    def policy(value):
        return resource(
            "AWS::ApplicationAutoScaling::ScalingPolicy",
            PolicyName="p",
            PolicyType="TargetTrackingScaling",
            ScalingTargetId={"Ref": "T"},
            TargetTrackingScalingPolicyConfiguration={
                "TargetValue": value,
                "PredefinedMetricSpecification": {
                    "PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"
                },
            },
        )

    stack.create({"T": target(3, "night", "day"), "P": policy("10")})
    scaling = stack.account.client("application-autoscaling")
    namespace = {"ServiceNamespace": "sagemaker"}
    assert stack.physical_ids()["T"] == "|".join((key["ResourceId"], key["ScalableDimension"], "sagemaker"))
    assert len(scaling.describe_scheduled_actions(**namespace)["ScheduledActions"]) == 2

    assert stack.update({"T": target("4", "night"), "P": policy(20)}) == "UPDATE_COMPLETE"
    assert scaling.describe_scalable_targets(**namespace)["ScalableTargets"][0]["MaxCapacity"] == 4
    found = scaling.describe_scaling_policies(**namespace)["ScalingPolicies"]
    assert [item["TargetTrackingScalingPolicyConfiguration"]["TargetValue"] for item in found] == [20.0]
    actions = scaling.describe_scheduled_actions(**namespace)["ScheduledActions"]
    assert [item["ScheduledActionName"] for item in actions] == ["night"]

    assert stack.delete() == "DELETE_COMPLETE"
    assert scaling.describe_scalable_targets(**namespace)["ScalableTargets"] == []
    assert scaling.describe_scaling_policies(**namespace)["ScalingPolicies"] == []
    assert scaling.describe_scheduled_actions(**namespace)["ScheduledActions"] == []
