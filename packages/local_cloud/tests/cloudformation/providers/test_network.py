"""VPCs and their resources after creation, updates, and deletion."""

import json

import pytest

from packages.local_cloud.tests.cloudformation.stacks import resource

VPC = {"VpcId": {"Fn::GetAtt": ["Vpc", "VpcId"]}}
TRUST = {
    "Version": "2012-10-17",
    "Statement": [
        {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}
    ],
}


def named(name):
    return [{"Key": "Name", "Value": name}]


def a_vpc(**properties):
    return {"Vpc": resource("AWS::EC2::VPC", CidrBlock="10.7.0.0/16", **properties)}


def only(found):
    (one,) = found
    return one


def tags(ec2, resource_id):
    found = ec2.describe_tags(Filters=[{"Name": "resource-id", "Values": [resource_id]}])["Tags"]
    return {tag["Key"]: tag["Value"] for tag in found}


@pytest.fixture
def ec2(account):
    return account.client("ec2")


def test_a_vpc(stack, ec2):
    outputs = {"Group": {"Value": {"Fn::GetAtt": ["Vpc", "DefaultSecurityGroup"]}}}
    resources = a_vpc(EnableDnsHostnames="true", Tags=named("one"))
    assert stack.create(resources, Outputs=outputs) == "CREATE_COMPLETE"
    vpc = stack.physical_ids()["Vpc"]

    def dns(attribute):
        found = ec2.describe_vpc_attribute(VpcId=vpc, Attribute=attribute)
        return found[f"{attribute[0].upper()}{attribute[1:]}"]["Value"]

    assert (dns("enableDnsSupport"), dns("enableDnsHostnames")) == (True, True)
    assert tags(ec2, vpc)["Name"] == "one"
    group = only(ec2.describe_security_groups(GroupIds=[stack.outputs()["Group"]])["SecurityGroups"])
    assert (group["GroupName"], group["VpcId"]) == ("default", vpc)

    changed = a_vpc(EnableDnsSupport=False, Tags=[{"Key": "team", "Value": "two"}])
    assert stack.changes(changed) == {"Vpc": ("Modify", "False")}
    stack.update(changed)
    assert (dns("enableDnsSupport"), dns("enableDnsHostnames")) == (False, False)
    assert tags(ec2, vpc) == {"team": "two"}
    assert stack.changes({"Vpc": resource("AWS::EC2::VPC", CidrBlock="10.8.0.0/16")}) == {
        "Vpc": ("Modify", "True")
    }


def test_subnets_with_a_route_table(stack, ec2, account):
    def subnet(index, **properties):
        zone = {"Fn::Select": [index, {"Fn::GetAZs": ""}]}
        cidr = {"Fn::Select": [index, {"Fn::Cidr": [{"Fn::GetAtt": ["Vpc", "CidrBlock"]}, 4, 8]}]}
        return resource("AWS::EC2::Subnet", **VPC, AvailabilityZone=zone, CidrBlock=cidr, **properties)

    zone_id = {"AvailabilityZoneId": "euw1-az2", "CidrBlock": "10.7.9.0/24"}
    resources = {
        **a_vpc(),
        "Table": resource("AWS::EC2::RouteTable", **VPC, Tags=named("routes")),
        "ById": resource("AWS::EC2::Subnet", **VPC, **zone_id),
        "A": subnet(0, MapPublicIpOnLaunch=True, Tags=named("a")),
        "B": subnet(1),
        **{
            f"Routes{name}": resource(
                "AWS::EC2::SubnetRouteTableAssociation",
                RouteTableId={"Ref": "Table"},
                SubnetId={"Fn::GetAtt": [name, "SubnetId"]},
            )
            for name in "AB"
        },
    }
    assert stack.create(resources) == "CREATE_COMPLETE"
    ids = stack.physical_ids()
    found = ec2.describe_subnets(SubnetIds=[ids["A"], ids["B"]])["Subnets"]
    assert {item["AvailabilityZone"] for item in found} == {"eu-west-1a", "eu-west-1b"}
    assert [(item["CidrBlock"], item["MapPublicIpOnLaunch"]) for item in found] == [
        ("10.7.0.0/24", True),
        ("10.7.1.0/24", False),
    ]
    by_id = only(ec2.describe_subnets(SubnetIds=[ids["ById"]])["Subnets"])
    assert (by_id["AvailabilityZoneId"], by_id["AvailabilityZone"]) == ("euw1-az2", "eu-west-1c")
    table = only(ec2.describe_route_tables(RouteTableIds=[ids["Table"]])["RouteTables"])
    assert {item["SubnetId"] for item in table["Associations"]} == {ids["A"], ids["B"]}
    assert {item["RouteTableAssociationId"] for item in table["Associations"]} == {
        ids["RoutesA"],
        ids["RoutesB"],
    }
    assert {"Subnet", "RouteTable", "VPC"} <= {item["type"] for item in account.inventory()}

    resources["A"] = subnet(0)
    del resources["RoutesB"]
    assert stack.update(resources) == "UPDATE_COMPLETE"
    assert not only(ec2.describe_subnets(SubnetIds=[ids["A"]])["Subnets"])["MapPublicIpOnLaunch"]
    assert tags(ec2, ids["A"]) == {}
    table = only(ec2.describe_route_tables(RouteTableIds=[ids["Table"]])["RouteTables"])
    assert [item["SubnetId"] for item in table["Associations"]] == [ids["A"]]
    assert stack.delete() == "DELETE_COMPLETE"
    assert account.inventory() == []


def test_security_groups_that_reference_each_other(stack, ec2, account):
    https = {"IpProtocol": "tcp", "FromPort": "443", "ToPort": 443}
    inside = {**https, "CidrIp": "10.7.0.0/16"}
    nothing = {"IpProtocol": "icmp", "FromPort": 252, "ToPort": 86, "CidrIp": "255.255.255.255/32"}

    def group(**properties):
        return resource("AWS::EC2::SecurityGroup", GroupDescription="for the test", **VPC, **properties)

    def egress_to(logical_id):
        return {**https, "DestinationSecurityGroupId": {"Ref": logical_id}, "Description": "out"}

    resources = {
        **a_vpc(),
        "Services": group(SecurityGroupEgress=[nothing], SecurityGroupIngress=[inside]),
        "Callers": group(SecurityGroupEgress=[egress_to("Services")], Tags=named("callers")),
        "Open": group(),
        "In": resource(
            "AWS::EC2::SecurityGroupIngress",
            GroupId={"Ref": "Services"},
            SourceSecurityGroupId={"Fn::GetAtt": ["Callers", "GroupId"]},
            Description="from the callers",
            **https,
        ),
        "Out": resource(
            "AWS::EC2::SecurityGroupEgress", GroupId={"Ref": "Callers"}, CidrIp="10.7.1.0/24", **https
        ),
    }
    assert stack.create(resources) == "CREATE_COMPLETE", stack.reasons()
    ids = stack.physical_ids()

    def rules(logical_id, kind):
        found = only(ec2.describe_security_groups(GroupIds=[ids[logical_id]])["SecurityGroups"])
        return [
            (rule["IpProtocol"], [item["CidrIp"] for item in rule["IpRanges"]], rule["UserIdGroupPairs"])
            for rule in found[kind]
        ]

    assert rules("Services", "IpPermissionsEgress") == [("icmp", ["255.255.255.255/32"], [])]
    assert rules("Open", "IpPermissionsEgress") == [("-1", ["0.0.0.0/0"], [])]
    protocol, ranges, pairs = only(rules("Services", "IpPermissions"))
    assert (protocol, ranges) == ("tcp", ["10.7.0.0/16"])
    assert [(pair["GroupId"], pair["Description"]) for pair in pairs] == [
        (ids["Callers"], "from the callers")
    ]
    protocol, ranges, pairs = only(rules("Callers", "IpPermissionsEgress"))
    assert (ranges, [pair["GroupId"] for pair in pairs]) == (["10.7.1.0/24"], [ids["Services"]])

    resources["Services"] = group(SecurityGroupEgress=[nothing])
    resources["Callers"] = group(SecurityGroupEgress=[{**https, "CidrIp": "0.0.0.0/0"}])
    resources["Open"] = group(SecurityGroupEgress=[nothing])
    assert stack.changes(resources) == dict.fromkeys(("Services", "Callers", "Open"), ("Modify", "False"))
    assert stack.update(resources) == "UPDATE_COMPLETE", stack.reasons()
    protocol, ranges, pairs = only(rules("Services", "IpPermissions"))
    assert (ranges, [pair["Description"] for pair in pairs]) == ([], ["from the callers"])
    assert only(rules("Callers", "IpPermissionsEgress"))[1:] == (["10.7.1.0/24", "0.0.0.0/0"], [])
    assert rules("Open", "IpPermissionsEgress") == [("icmp", ["255.255.255.255/32"], [])]

    del resources["Out"]
    assert stack.update(resources) == "UPDATE_COMPLETE"
    assert only(rules("Callers", "IpPermissionsEgress"))[1] == ["0.0.0.0/0"]
    assert stack.delete() == "DELETE_COMPLETE", stack.reasons()
    assert account.inventory() == []


def test_gateway_and_interface_endpoints(stack, ec2, account):
    policy = {"Statement": [{"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": "*"}]}
    base = {
        **a_vpc(),
        "Table": resource("AWS::EC2::RouteTable", **VPC),
        "Other": resource("AWS::EC2::RouteTable", **VPC),
        "Subnet": resource("AWS::EC2::Subnet", **VPC, CidrBlock="10.7.0.0/24"),
        "Group": resource("AWS::EC2::SecurityGroup", **VPC, GroupDescription="of the endpoint"),
    }

    def gateway(*tables, **properties):
        return resource(
            "AWS::EC2::VPCEndpoint",
            **VPC,
            ServiceName="com.amazonaws.eu-west-1.s3",
            RouteTableIds=[{"Ref": table} for table in tables],
            **properties,
        )

    interface = resource(
        "AWS::EC2::VPCEndpoint",
        **VPC,
        ServiceName="com.amazonaws.eu-west-1.logs",
        VpcEndpointType="Interface",
        PrivateDnsEnabled="true",
        SubnetIds=[{"Ref": "Subnet"}],
        SecurityGroupIds=[{"Ref": "Group"}],
    )
    made = {**base, "S3": gateway("Table", PolicyDocument=policy, Tags=named("s3")), "Logs": interface}
    assert stack.create(made) == "CREATE_COMPLETE", stack.reasons()
    ids = stack.physical_ids()

    def endpoint(name):
        return only(ec2.describe_vpc_endpoints(VpcEndpointIds=[ids[name]])["VpcEndpoints"])

    assert endpoint("S3")["VpcEndpointType"] == "Gateway"
    assert endpoint("S3")["RouteTableIds"] == [ids["Table"]]
    assert json.loads(endpoint("S3")["PolicyDocument"]) == policy
    logs = endpoint("Logs")
    assert (logs["SubnetIds"], logs["PrivateDnsEnabled"]) == ([ids["Subnet"]], True)
    assert [group["GroupId"] for group in logs["Groups"]] == [ids["Group"]]

    assert stack.update({**made, "S3": gateway("Other")}) == "UPDATE_COMPLETE"
    assert endpoint("S3")["RouteTableIds"] == [ids["Other"]]
    assert json.loads(endpoint("S3")["PolicyDocument"])["Statement"][0]["Action"] == "*"
    assert tags(ec2, ids["S3"]) == {}
    assert stack.update(base) == "UPDATE_COMPLETE"
    assert "VPCEndPoint" not in {item["type"] for item in account.inventory()}
    assert stack.delete() == "DELETE_COMPLETE"
    assert account.inventory() == []


def test_a_flow_log(stack, ec2):
    def flow_log(**properties):
        return resource(
            "AWS::EC2::FlowLog",
            ResourceId={"Ref": "Vpc"},
            ResourceType="VPC",
            TrafficType="ALL",
            LogDestinationType="cloud-watch-logs",
            LogGroupName={"Ref": "Group"},
            DeliverLogsPermissionArn={"Fn::GetAtt": ["Role", "Arn"]},
            MaxAggregationInterval="60",
            **properties,
        )

    base = {
        **a_vpc(),
        "Group": resource("AWS::Logs::LogGroup", LogGroupName="/flows"),
        "Role": resource("AWS::IAM::Role", AssumeRolePolicyDocument=TRUST),
    }
    assert stack.create({**base, "Flows": flow_log(Tags=named("flows"))}) == "CREATE_COMPLETE"
    flows = stack.physical_ids()["Flows"]
    found = only(ec2.describe_flow_logs(FlowLogIds=[flows])["FlowLogs"])
    assert (found["ResourceId"], found["LogGroupName"]) == (stack.physical_ids()["Vpc"], "/flows")
    assert (found["TrafficType"], found["MaxAggregationInterval"]) == ("ALL", 60)
    assert stack.update({**base, "Flows": flow_log(Tags=[{"Key": "b", "Value": "2"}])}) == "UPDATE_COMPLETE"
    assert tags(ec2, flows) == {"b": "2"}
    assert stack.update(base) == "UPDATE_COMPLETE"
    assert ec2.describe_flow_logs()["FlowLogs"] == []
