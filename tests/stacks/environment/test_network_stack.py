"""The network: its routes, its inbound rules, and its flow logs."""

from typing import Any

import pytest

from tests.stacks.environment.test_foundation_stack import only

ACCOUNT = "123456789012"


def ref(resource_type: str, network: Any, attribute: str) -> list[dict[str, Any]]:
    """Return references to all resources of a type."""
    return [{"Fn::GetAtt": [logical_id, attribute]} for logical_id in network.find_resources(resource_type)]


@pytest.fixture(scope="module")
def network(walled):
    return walled.network


@pytest.fixture
def gateway(network):
    (properties,) = [
        resource["Properties"]
        for resource in network.find_resources("AWS::EC2::VPCEndpoint").values()
        if resource["Properties"]["VpcEndpointType"] == "Gateway"
    ]
    return properties


def group(network: Any, name: str) -> tuple[str, dict[str, Any]]:
    """Return a security group by name: its logical id and properties."""
    ((logical_id, properties),) = [
        (key, resource["Properties"])
        for key, resource in network.find_resources("AWS::EC2::SecurityGroup").items()
        if {"Key": "Name", "Value": name} in resource["Properties"]["Tags"]
    ]
    return logical_id, properties


def test_there_is_no_route_to_the_internet(network):
    types = {resource["Type"] for resource in network.to_json()["Resources"].values()}
    assert not types & {
        "AWS::EC2::EIP",
        "AWS::EC2::EgressOnlyInternetGateway",
        "AWS::EC2::InternetGateway",
        "AWS::EC2::NatGateway",
        "AWS::EC2::Route",
        "AWS::EC2::VPCGatewayAttachment",
        "AWS::EC2::VPCPeeringConnection",
    }


def test_s3_is_reached_through_the_gateway_for_this_environments_buckets_and_image_layers(network, gateway):
    assert gateway["ServiceName"] == "com.amazonaws.eu-central-1.s3"
    assert gateway["RouteTableIds"] == ref("AWS::EC2::RouteTable", network, "RouteTableId")
    ours, layers = gateway["PolicyDocument"]["Statement"]
    buckets = [
        f"arn:aws:s3:::tritonstack-walled-{what}-{ACCOUNT}-eu-central-1" for what in ("artifacts", "data")
    ]
    assert ours["Resource"] == [arn for bucket in buckets for arn in (bucket, f"{bucket}/*")]
    assert ours["Condition"] == {"StringEquals": {"aws:PrincipalAccount": ACCOUNT}}
    assert layers["Resource"] == ["arn:aws:s3:::prod-eu-central-1-starport-layer-bucket/*"]
    assert layers["Action"] == ["s3:GetObject"]


def test_endpoints_reach_services_over_tls_and_accept_no_connections(network):
    services_group, _ = group(network, "tritonstack-walled-services")
    _, endpoints = group(network, "tritonstack-walled-endpoints")
    assert "SecurityGroupIngress" not in endpoints
    to_services, to_s3 = endpoints["SecurityGroupEgress"]
    assert to_services["DestinationSecurityGroupId"] == {"Fn::GetAtt": [services_group, "GroupId"]}
    assert to_s3["CidrIp"] == "0.0.0.0/0"
    for rule in (to_services, to_s3):
        assert (rule["IpProtocol"], rule["FromPort"], rule["ToPort"]) == ("tcp", 443, 443)


def test_only_endpoints_connect_to_services_which_open_no_connections(network):
    services_group, services = group(network, "tritonstack-walled-services")
    endpoints_group, _ = group(network, "tritonstack-walled-endpoints")
    ingress = only(network, "AWS::EC2::SecurityGroupIngress")["Properties"]
    assert ingress["GroupId"] == {"Fn::GetAtt": [services_group, "GroupId"]}
    assert ingress["SourceSecurityGroupId"] == {"Fn::GetAtt": [endpoints_group, "GroupId"]}
    assert "SecurityGroupIngress" not in services
    # A group without any rule for what goes out would let everything out.
    assert [rule["CidrIp"] for rule in services["SecurityGroupEgress"]] == ["255.255.255.255/32"]
