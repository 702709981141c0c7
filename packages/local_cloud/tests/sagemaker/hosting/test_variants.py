"""Endpoints with two production variants through boto3, with strict fake Tritons."""

import pytest
from botocore.exceptions import ClientError

from packages.local_cloud.tests.sagemaker.cloud import a_variant
from tritonstack_local.sagemaker.hosting.fleet import Fleet

SCALING = {
    "ServiceNamespace": "sagemaker",
    "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
}


def variant(name, *, weight=1.0, model=None, **fields):
    weighted = {"VariantName": name, "InitialVariantWeight": weight}
    return {**a_variant(model or name), **weighted, **fields}


def configured(cloud, name, *variants):
    for one in variants:
        if one["ModelName"] not in {item["ModelName"] for item in cloud.sagemaker.list_models()["Models"]}:
            cloud.model(one["ModelName"], environment={"FAKE_ANSWER": one["ModelName"]})
    cloud.sagemaker.create_endpoint_config(EndpointConfigName=name, ProductionVariants=list(variants))


@pytest.fixture
def endpoint(cloud):
    configured(cloud, "c", variant("main", weight=0.75), variant("challenger", weight=0.25))
    cloud.sagemaker.create_endpoint(EndpointName="e", EndpointConfigName="c")
    assert cloud.settled("e")["EndpointStatus"] == "InService"
    return cloud


def asked(cloud, **fields):
    answer = cloud.runtime.invoke_endpoint(EndpointName="e", Body=b"ask", **fields)
    assert answer["Body"].read().decode().startswith(answer["InvokedProductionVariant"])
    return answer["InvokedProductionVariant"]


def updated(cloud, name, *variants, **options):
    configured(cloud, name, *variants)
    cloud.sagemaker.update_endpoint(EndpointName="e", EndpointConfigName=name, **options)
    return cloud.settled("e")


def numbers(described):
    return {
        item["VariantName"]: (item["CurrentInstanceCount"], item["CurrentWeight"])
        for item in described["ProductionVariants"]
    }


def test_each_variant_has_a_server_and_gets_its_share_of_requests(endpoint, tritons):
    assert numbers(endpoint.settled("e")) == {"main": (1, 0.75), "challenger": (1, 0.25)}
    assert sorted(server.order.environment["FAKE_ANSWER"] for server in tritons.started) == [
        "challenger",
        "main",
    ]
    answers = [asked(endpoint) for _ in range(12)]
    assert answers.count("challenger") == 3
    # As evenly as can be: not the heavier variant's nine in a row.
    assert "challenger" in answers[:4]


def test_a_request_can_name_its_variant(endpoint):
    assert {asked(endpoint, TargetVariant="challenger") for _ in range(4)} == {"challenger"}
    with pytest.raises(ClientError, match="Variant other"):
        asked(endpoint, TargetVariant="other")


def test_weights_can_be_changed_while_serving(endpoint):
    endpoint.sagemaker.update_endpoint_weights_and_capacities(
        EndpointName="e",
        DesiredWeightsAndCapacities=[
            {"VariantName": "main", "DesiredWeight": 0},
            {"VariantName": "challenger", "DesiredInstanceCount": 2},
        ],
    )
    assert numbers(endpoint.settled("e")) == {"main": (1, 0.0), "challenger": (2, 0.25)}
    assert {asked(endpoint) for _ in range(8)} == {"challenger"}
    assert asked(endpoint, TargetVariant="main") == "main"


def test_a_variant_that_does_not_start_fails_the_update(endpoint, tritons):
    endpoint.model("bad", environment={"FAKE_STARTS": "no"})
    described = updated(endpoint, "d", variant("main"), variant("challenger", model="bad"))
    assert described["EndpointConfigName"] == "c"
    assert "variant challenger" in described["FailureReason"]
    assert {asked(endpoint) for _ in range(4)} == {"main", "challenger"}
    assert [server.running for server in tritons.started] == [True, True, False, False]


@pytest.mark.parametrize(
    "without",
    [(variant("main"),), (variant("main"), variant("challenger", InstanceType="ml.g5.2xlarge"))],
    ids=["removed", "another type"],
)
def test_a_scaled_variant_cannot_be_removed_or_change_its_instance_type(endpoint, without):
    scaling = endpoint.client("application-autoscaling")
    target = {**SCALING, "ResourceId": "endpoint/e/variant/challenger"}
    scaling.register_scalable_target(**target, MinCapacity=1, MaxCapacity=2)
    configured(endpoint, "d", *without)
    with pytest.raises(ClientError, match=r'"\[challenger\]"'):
        endpoint.sagemaker.update_endpoint(EndpointName="e", EndpointConfigName="d")
    assert updated(endpoint, "f", variant("challenger"), variant("main", InstanceType="ml.g5.2xlarge"))[
        "EndpointConfigName"
    ] == ("f")
    scaling.deregister_scalable_target(**target)
    endpoint.sagemaker.update_endpoint(EndpointName="e", EndpointConfigName="d")
    assert endpoint.settled("e")["EndpointConfigName"] == "d"


class _Deployment:
    def __init__(self, name):
        self.plan = self
        self.variant = name


@pytest.mark.parametrize("weights", [{"a": 0.9, "b": 0.1}, {"a": 3, "b": 2}, {"a": 1, "b": 0}])
def test_requests_are_split_by_weight_as_evenly_as_possible(weights):
    fleet = Fleet([_Deployment("a"), _Deployment("b")], weights=weights)
    chosen = [fleet.choose(None).variant for _ in range(200)]
    for end in range(1, 201):
        share = weights["b"] / sum(weights.values())
        assert abs(chosen[:end].count("b") - end * share) <= 1
