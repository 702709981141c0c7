"""The network: its routes, its inbound rules, and its flow logs."""

from __future__ import annotations

import ipaddress
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
    (found,) = [
        resource["Properties"]
        for resource in network.find_resources("AWS::EC2::VPCEndpoint").values()
        if resource["Properties"]["VpcEndpointType"] == "Gateway"
    ]
    return found


@pytest.fixture
def interfaces(network):
    return {
        resource["Properties"]["ServiceName"]: resource["Properties"]
        for resource in network.find_resources("AWS::EC2::VPCEndpoint").values()
        if resource["Properties"]["VpcEndpointType"] == "Interface"
    }


def group(network: Any, name: str) -> tuple[str, dict[str, Any]]:
    """Return a security group by name: its logical id and properties."""
    ((logical_id, found),) = [
        (key, resource["Properties"])
        for key, resource in network.find_resources("AWS::EC2::SecurityGroup").items()
        if {"Key": "Name", "Value": name} in resource["Properties"]["Tags"]
    ]
    return logical_id, found


def test_each_zone_has_one_private_subnet_in_the_networks_block(network):
    subnets = [found["Properties"] for found in network.find_resources("AWS::EC2::Subnet").values()]
    assert only(network, "AWS::EC2::VPC")["Properties"]["CidrBlock"] == "10.9.0.0/20"
    assert [s["AvailabilityZone"] for s in subnets] == [
        {"Fn::Select": [zone, {"Fn::GetAZs": ""}]} for zone in range(3)
    ]
    blocks = [ipaddress.IPv4Network(s["CidrBlock"]) for s in subnets]
    assert all(block.subnet_of(ipaddress.IPv4Network("10.9.0.0/20")) for block in blocks)
    assert not any(a.overlaps(b) for a in blocks for b in blocks if a is not b)
    assert {s["MapPublicIpOnLaunch"] for s in subnets} == {False}
    assert len(network.find_resources("AWS::EC2::SubnetRouteTableAssociation")) == 3


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


def test_synthesis_does_not_look_up_zones(walled):
    assert not walled.manifest("tritonstack-walled-network").get("missing")
    assert "eu-central-1a" not in walled.text("tritonstack-walled-network")


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


def test_images_and_logs_are_reached_by_name_in_every_zone(network, interfaces):
    assert set(interfaces) == {
        f"com.amazonaws.eu-central-1.{name}" for name in ("ecr.api", "ecr.dkr", "logs")
    }
    services_group, _ = group(network, "tritonstack-walled-services")
    for interface in interfaces.values():
        assert interface["PrivateDnsEnabled"] is True
        assert interface["SubnetIds"] == ref("AWS::EC2::Subnet", network, "SubnetId")
        assert interface["SecurityGroupIds"] == [{"Fn::GetAtt": [services_group, "GroupId"]}]
        (allowed,) = interface["PolicyDocument"]["Statement"]
        assert allowed["Condition"] == {"StringEquals": {"aws:PrincipalAccount": ACCOUNT}}
        assert not any("*" in action for action in allowed["Action"])


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


def test_the_default_security_group_is_unused(network):
    assert "DefaultSecurityGroup" not in str(network.to_json())


def test_traffic_is_recorded_encrypted_for_a_year(network):
    flow_log = only(network, "AWS::EC2::FlowLog")["Properties"]
    assert flow_log["TrafficType"] == "ALL"
    assert flow_log["ResourceId"] in ref("AWS::EC2::VPC", network, "VpcId")
    (group_id,) = network.find_resources("AWS::Logs::LogGroup")
    assert flow_log["LogGroupName"] == {"Ref": group_id}
    log = only(network, "AWS::Logs::LogGroup")["Properties"]
    assert log["RetentionInDays"] == 365
    assert log["LogGroupName"] == "/tritonstack-walled/network-flows"
    parameter = network.to_json()["Parameters"][log["KmsKeyId"]["Ref"]]
    assert parameter["Type"] == "AWS::SSM::Parameter::Value<String>"
    assert parameter["Default"] == "/tritonstack-walled/key-arn"


def test_the_key_lets_the_record_be_encrypted(walled, network):
    name = only(network, "AWS::Logs::LogGroup")["Properties"]["LogGroupName"]
    arn = f"arn:aws:logs:eu-central-1:{ACCOUNT}:log-group:{name}"
    assert arn in str(only(walled.foundation, "AWS::KMS::Key")["Properties"]["KeyPolicy"])


def test_only_flow_logs_of_this_account_are_written_with_the_role(network):
    role = only(network, "AWS::IAM::Role")["Properties"]
    (trust,) = role["AssumeRolePolicyDocument"]["Statement"]
    assert trust["Principal"] == {"Service": "vpc-flow-logs.amazonaws.com"}
    assert trust["Condition"]["StringEquals"] == {"aws:SourceAccount": ACCOUNT}
    (policy,) = role["Policies"]
    writes, reads = policy["PolicyDocument"]["Statement"]
    assert writes["Resource"].endswith(":log-group:/tritonstack-walled/network-flows:*")
    assert reads["Action"] == ["logs:DescribeLogGroups"]


def test_endpoints_find_subnets_and_group_by_parameters(network):
    parameters = {
        found["Properties"]["Name"]: found["Properties"]
        for found in network.find_resources("AWS::SSM::Parameter").values()
    }
    assert {found["Type"] for found in parameters.values()} == {"StringList"}
    subnets = ref("AWS::EC2::Subnet", network, "SubnetId")
    assert parameters["/tritonstack-walled/subnet-ids"]["Value"] == {"Fn::Join": [",", subnets]}
    endpoints_group, _ = group(network, "tritonstack-walled-endpoints")
    assert parameters["/tritonstack-walled/security-group-ids"]["Value"] == {
        "Fn::GetAtt": [endpoints_group, "GroupId"]
    }


def test_an_environment_without_a_network(sample):
    assert "tritonstack-sample-network" not in sample.stacks
