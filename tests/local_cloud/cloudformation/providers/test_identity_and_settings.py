"""IAM and SSM: what the services hold after a create, after an update, and after properties go away."""

from tests.local_cloud.cloudformation.stacks import parameter, resource

TRUST = {
    "Version": "2012-10-17",
    "Statement": [
        {"Effect": "Allow", "Principal": {"Service": "sagemaker.amazonaws.com"}, "Action": "sts:AssumeRole"}
    ],
}


def allowing(action):
    return {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": action, "Resource": "*"}]}


READ, LIST = allowing("s3:GetObject"), allowing("s3:ListBucket")
READ_ONLY = "arn:aws:iam::aws:policy/ReadOnlyAccess"


def test_a_role(stack):
    role = resource(
        "AWS::IAM::Role",
        RoleName="role",
        AssumeRolePolicyDocument=TRUST,
        Description="one",
        MaxSessionDuration="7200",
        ManagedPolicyArns=[READ_ONLY],
        Policies=[{"PolicyName": "a", "PolicyDocument": READ}, {"PolicyName": "b", "PolicyDocument": LIST}],
        Tags=[{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "2"}],
    )
    stack.create({"R": role, "Arn": parameter({"Fn::GetAtt": ["R", "Arn"]}, Name="/arn")})
    iam = stack.account.client("iam")
    found = iam.get_role(RoleName="role")["Role"]
    assert found["AssumeRolePolicyDocument"] == TRUST
    assert (found["Description"], found["MaxSessionDuration"]) == ("one", 7200)
    assert stack.account.client("ssm").get_parameter(Name="/arn")["Parameter"]["Value"] == found["Arn"]
    attached = iam.list_attached_role_policies(RoleName="role")["AttachedPolicies"]
    assert [item["PolicyArn"] for item in attached] == [READ_ONLY]
    assert iam.get_role_policy(RoleName="role", PolicyName="b")["PolicyDocument"] == LIST

    # Trust policies without a Version are the CDK's own.
    slimmer = resource(
        "AWS::IAM::Role",
        RoleName="role",
        AssumeRolePolicyDocument={"Statement": TRUST["Statement"]},
        Policies=[{"PolicyName": "a", "PolicyDocument": LIST}],
        Tags=[{"Key": "b", "Value": "3"}],
    )
    assert stack.update({"R": slimmer}) == "UPDATE_COMPLETE"
    found = iam.get_role(RoleName="role")["Role"]
    assert found["AssumeRolePolicyDocument"] == {"Statement": TRUST["Statement"]}
    assert found["MaxSessionDuration"] == 3600
    assert found["Tags"] == [{"Key": "b", "Value": "3"}]
    assert iam.list_attached_role_policies(RoleName="role")["AttachedPolicies"] == []
    assert iam.list_role_policies(RoleName="role")["PolicyNames"] == ["a"]
    assert iam.get_role_policy(RoleName="role", PolicyName="a")["PolicyDocument"] == LIST

    iam.attach_role_policy(RoleName="role", PolicyArn=READ_ONLY)
    assert stack.delete() == "DELETE_COMPLETE"
    assert iam.list_roles()["Roles"] == []


def test_an_inline_policy_moves_with_its_roles(stack):
    roles = {name: resource("AWS::IAM::Role", AssumeRolePolicyDocument=TRUST, RoleName=name) for name in "AB"}
    policy = {"PolicyName": "p", "PolicyDocument": READ, "Roles": [{"Ref": "A"}]}
    stack.create({**roles, "P": resource("AWS::IAM::Policy", **policy)})
    iam = stack.account.client("iam")
    assert iam.list_role_policies(RoleName="A")["PolicyNames"] == ["p"]
    stack.update({**roles, "P": resource("AWS::IAM::Policy", **{**policy, "Roles": [{"Ref": "B"}]})})
    assert iam.list_role_policies(RoleName="A")["PolicyNames"] == []
    assert iam.get_role_policy(RoleName="B", PolicyName="p")["PolicyDocument"] == READ
    renamed = {"PolicyName": "q", "PolicyDocument": LIST, "Roles": [{"Ref": "B"}]}
    stack.update({**roles, "P": resource("AWS::IAM::Policy", **renamed)})
    assert iam.list_role_policies(RoleName="B")["PolicyNames"] == ["q"]
    stack.update(roles)
    assert iam.list_role_policies(RoleName="B")["PolicyNames"] == []


def test_a_managed_policy(stack):
    role = {"R": resource("AWS::IAM::Role", AssumeRolePolicyDocument=TRUST, RoleName="r")}
    policy = {"ManagedPolicyName": "m", "PolicyDocument": READ, "Roles": [{"Ref": "R"}]}
    stack.create({**role, "M": resource("AWS::IAM::ManagedPolicy", **policy)})
    iam = stack.account.client("iam")
    arn = stack.physical_ids()["M"]
    attached = iam.list_attached_role_policies(RoleName="r")["AttachedPolicies"]
    assert [item["PolicyArn"] for item in attached] == [arn]
    stack.update({**role, "M": resource("AWS::IAM::ManagedPolicy", **{**policy, "PolicyDocument": LIST})})
    versions = iam.list_policy_versions(PolicyArn=arn)["Versions"]
    assert len(versions) == 1
    version = iam.get_policy_version(PolicyArn=arn, VersionId=versions[0]["VersionId"])["PolicyVersion"]
    assert version["Document"] == LIST
    assert stack.delete() == "DELETE_COMPLETE"
    assert iam.list_policies(Scope="Local")["Policies"] == []


def test_a_parameter(stack):
    stack.create({"P": parameter("1", Name="/p", Description="one", Tags={"a": "1", "b": "2"})})
    ssm = stack.account.client("ssm")
    stack.update({"P": parameter("2", Name="/p", Tags={"b": "3"})})
    assert ssm.get_parameter(Name="/p")["Parameter"]["Value"] == "2"
    tags = ssm.list_tags_for_resource(ResourceType="Parameter", ResourceId="/p")["TagList"]
    assert tags == [{"Key": "b", "Value": "3"}]


def test_a_parameter_that_exists_is_not_taken_over(stack):
    ssm = stack.account.client("ssm")
    ssm.put_parameter(Name="/taken", Value="theirs", Type="String")
    assert stack.create({"P": parameter("mine", Name="/taken")}) == "ROLLBACK_COMPLETE"
    assert ssm.get_parameter(Name="/taken")["Parameter"]["Value"] == "theirs"
