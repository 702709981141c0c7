"""IAM and SSM resources after creation, updates, and removed properties."""

from packages.local_cloud.tests.cloudformation.stacks import parameter, resource

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

    # The CDK's trust policies have no Version.
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


def test_openid_connect_providers(stack):
    github = {
        "Url": "https://token.actions.githubusercontent.com",
        "ClientIdList": ["sts.amazonaws.com", "b"],
    }
    tags = [{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "2"}]
    kind = "AWS::IAM::OIDCProvider"
    arn = f"arn:aws:iam::{stack.account.account_id}:oidc-provider/token.actions.githubusercontent.com"
    stack.create({"P": resource(kind, **github, Tags=tags), "Arn": parameter({"Ref": "P"}, Name="/provider")})
    assert stack.physical_ids()["P"] == arn
    assert stack.account.client("ssm").get_parameter(Name="/provider")["Parameter"]["Value"] == arn

    iam = stack.account.client("iam")
    changed = {**github, "ClientIdList": ["c", "sts.amazonaws.com"], "ThumbprintList": ["0" * 40]}
    assert stack.update({"P": resource(kind, **changed, Tags=tags[:1])}) == "UPDATE_COMPLETE"
    found = iam.get_open_id_connect_provider(OpenIDConnectProviderArn=arn)
    assert sorted(found["ClientIDList"]) == ["c", "sts.amazonaws.com"]
    assert (found["ThumbprintList"], found["Tags"]) == (["0" * 40], tags[:1])

    iam.delete_open_id_connect_provider(OpenIDConnectProviderArn=arn)
    assert stack.delete() == "DELETE_COMPLETE"


def test_a_permissions_boundary_in_the_same_stack(stack):
    boundary = resource("AWS::IAM::ManagedPolicy", ManagedPolicyName="boundary", PolicyDocument=READ)
    role = resource(
        "AWS::IAM::Role",
        RoleName="deploy",
        AssumeRolePolicyDocument=TRUST,
        PermissionsBoundary={"Ref": "Boundary"},
    )
    assert stack.create({"Boundary": boundary, "Role": role}) == "CREATE_COMPLETE"
    found = stack.account.client("iam").get_role(RoleName="deploy")["Role"]["PermissionsBoundary"]
    assert found["PermissionsBoundaryArn"] == f"arn:aws:iam::{stack.account.account_id}:policy/boundary"
    assert stack.delete() == "DELETE_COMPLETE"


def test_a_schedule(stack):
    def nightly(**changes):
        project = f"arn:aws:codebuild:eu-west-1:{stack.account.account_id}:project/reap"
        given = {
            "Name": "reap",
            "ScheduleExpression": "cron(0 3 * * ? *)",
            "FlexibleTimeWindow": {"Mode": "OFF"},
            "Target": {"Arn": project, "RoleArn": "arn:aws:iam::111122223333:role/r", "Input": "{}"},
        }
        return resource("AWS::Scheduler::Schedule", **given | changes)

    assert stack.create({"S": nightly()}) == "CREATE_COMPLETE"
    assert stack.update({"S": nightly(State="DISABLED")}) == "UPDATE_COMPLETE"
    scheduler = stack.account.client("scheduler")
    assert scheduler.get_schedule(Name="reap")["State"] == "DISABLED"
    assert stack.delete() == "DELETE_COMPLETE"
    assert scheduler.list_schedules()["Schedules"] == []
    assert stack.account.inventory() == []


def test_stack_tags_are_applied_to_resources(stack):
    resources = {
        "Role": resource("AWS::IAM::Role", RoleName="r", AssumeRolePolicyDocument=TRUST),
        "Parameter": parameter(Name="/p", Tags={"owner": "me"}),
        "Project": resource("AWS::SNS::Topic", TopicName="t"),
    }
    given = [{"Key": "owner", "Value": "team"}, {"Key": "expires", "Value": "2026-11-22T08:30:00Z"}]
    assert stack.create(resources, Tags=given) == "CREATE_COMPLETE"

    def found():
        client = stack.account.client
        role = client("iam").list_role_tags(RoleName="r")["Tags"]
        value = client("ssm").list_tags_for_resource(ResourceType="Parameter", ResourceId="/p")["TagList"]
        topic = f"arn:aws:sns:eu-west-1:{stack.account.account_id}:t"
        told = client("sns").list_tags_for_resource(ResourceArn=topic)["Tags"]
        return [{tag["Key"]: tag["Value"] for tag in tags} for tags in (role, value, told)]

    stacks = {"owner": "team", "expires": "2026-11-22T08:30:00Z"}
    assert found() == [stacks, {**stacks, "owner": "me"}, stacks]
    # A changed stack tag changes every resource that has it.
    changed = stack.changes(resources, Tags=given[:1])
    assert changed == dict.fromkeys(resources, ("Modify", "False"))
    assert stack.update(resources, Tags=given[:1]) == "UPDATE_COMPLETE"
    assert found() == [{"owner": "team"}, {"owner": "me"}, {"owner": "team"}]
