"""Endpoints with an inference component: settings of the instances and of the component."""

from __future__ import annotations

import pytest

from tests.stacks.templates import only, production, properties

NAME = "tritonstack-every-component"


@pytest.fixture
def component(every):
    return every.endpoint("component")


def test_instances_are_managed_by_sagemaker_without_a_model(component):
    variant = production(component)
    assert variant["ManagedInstanceScaling"] == {
        "Status": "ENABLED",
        "MinInstanceCount": 0,
        "MaxInstanceCount": 3,
    }
    assert variant["InitialInstanceCount"] == 1
    assert {"ModelName", "InitialVariantWeight", "ModelDataDownloadTimeoutInSeconds"}.isdisjoint(variant)


def test_configuration_matches_the_models_role_and_network(component):
    model = properties(component, "AWS::SageMaker::Model")
    config = properties(component, "AWS::SageMaker::EndpointConfig")
    for name in ("ExecutionRoleArn", "EnableNetworkIsolation", "VpcConfig"):
        assert config[name] == model[name]


def test_configuration_waits_for_the_roles_policy(component):
    """There is no model between the two."""
    policy_id, _ = only(component, "AWS::IAM::Policy")
    _, config = only(component, "AWS::SageMaker::EndpointConfig")
    assert config["DependsOn"] == [policy_id]


def test_component(component):
    endpoint_id, _ = only(component, "AWS::SageMaker::Endpoint")
    model_id, _ = only(component, "AWS::SageMaker::Model")
    made = properties(component, "AWS::SageMaker::InferenceComponent")
    made.pop("Tags")
    made.pop("DeploymentConfig")
    copies = made["RuntimeConfig"]["CopyCount"]["Ref"]
    parameters = component.to_json()["Parameters"]
    assert (parameters[copies]["Type"], parameters[copies]["Default"]) == ("Number", 1)
    assert made == {
        "InferenceComponentName": f"{NAME}-component",
        "EndpointName": {"Fn::GetAtt": [endpoint_id, "EndpointName"]},
        "VariantName": "main",
        "Specification": {
            "ModelName": {"Fn::GetAtt": [model_id, "ModelName"]},
            "ComputeResourceRequirements": {
                "MinMemoryRequiredInMb": 4096,
                "NumberOfAcceleratorDevicesRequired": 1,
            },
            "StartupParameters": {
                "ContainerStartupHealthCheckTimeoutInSeconds": 360,
                "ModelDataDownloadTimeoutInSeconds": 360,
            },
        },
        "RuntimeConfig": {"CopyCount": {"Ref": copies}},
    }


def test_copies_are_replaced_in_batches_and_roll_back_on_alarms(component):
    rollout = properties(component, "AWS::SageMaker::InferenceComponent")["DeploymentConfig"]
    policy = rollout["RollingUpdatePolicy"]
    assert policy["MaximumBatchSize"]["Type"] == "COPY_COUNT"
    batch = policy["MaximumBatchSize"]["Value"]["Ref"]
    assert component.to_json()["Parameters"][batch]["Default"] == 1
    assert policy["WaitIntervalInSeconds"] == 360
    assert policy["MaximumExecutionTimeoutInSeconds"] > 2 * (360 + 360 + 360)
    assert rollout["AutoRollbackConfiguration"]["Alarms"] == [
        {"AlarmName": f"{NAME}-latency-p99-rollout"},
        {"AlarmName": f"{NAME}-server-errors-rollout"},
    ]
    assert "DeploymentConfig" not in properties(component, "AWS::SageMaker::Endpoint")


def test_scaling_waits_for_the_component(component):
    component_id, _ = only(component, "AWS::SageMaker::InferenceComponent")
    _, target = only(component, "AWS::ApplicationAutoScaling::ScalableTarget")
    assert component_id in target["DependsOn"]
