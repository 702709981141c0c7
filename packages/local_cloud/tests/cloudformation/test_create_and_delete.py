"""Create and delete stacks: order, outputs, conditions, early rejection, rollback."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from botocore.exceptions import ClientError

from packages.local_cloud.tests.cloudformation.stacks import StackDriver, broken, parameter, resource


def test_create_and_delete_a_stack(stack):
    status = stack.create(
        {
            "First": parameter("one", Name="/demo/first"),
            "Second": parameter({"Fn::Sub": "${First} in ${AWS::Region}"}, Name="/demo/second"),
        },
        Outputs={"Value": {"Value": {"Fn::GetAtt": ["Second", "Value"]}, "Description": "said"}},
    )
    assert status == "CREATE_COMPLETE"
    assert stack.outputs() == {"Value": "/demo/first in eu-west-1"}
    assert stack.physical_ids() == {"First": "/demo/first", "Second": "/demo/second"}
    happened = stack.events()
    assert happened[0] == ("stack", "CREATE_IN_PROGRESS")
    assert happened[-1] == ("stack", "CREATE_COMPLETE")
    assert happened.index(("First", "CREATE_COMPLETE")) < happened.index(("Second", "CREATE_IN_PROGRESS"))
    assert stack.parameters()["/demo/second"] == "/demo/first in eu-west-1"

    stack_id = stack.described()["StackId"]
    assert stack.delete() == "DELETE_COMPLETE"
    assert stack.parameters() == {}
    gone = stack.events(stack_id)
    assert gone.index(("Second", "DELETE_COMPLETE")) < gone.index(("First", "DELETE_IN_PROGRESS"))
    with pytest.raises(ClientError, match="Stack with id stack does not exist"):
        stack.described()
    assert stack.described(stack_id)["StackStatus"] == "DELETE_COMPLETE"


def test_conditions_select_resources_properties_and_outputs(stack):
    stack.create(
        {
            "Always": parameter({"Fn::If": ["Big", "big", "small"]}),
            "Sometimes": {**parameter(), "Condition": "Big"},
        },
        Parameters={"Size": {"Type": "String", "Default": "s"}},
        Conditions={"Big": {"Fn::Equals": [{"Ref": "Size"}, "b"]}},
        Outputs={
            "Value": {"Value": {"Fn::GetAtt": ["Always", "Value"]}},
            "Other": {"Value": {"Ref": "Sometimes"}, "Condition": "Big"},
        },
    )
    assert stack.outputs() == {"Value": "small"}
    assert set(stack.physical_ids()) == {"Always"}


VARIANT = {"VariantName": "main", "InstanceType": "ml.g5.xlarge", "InitialInstanceCount": 1}
ASYNCHRONOUS = {"OutputConfig": {"S3OutputPath": "s3://bucket/answers/"}}


def config(**properties):
    return resource("AWS::SageMaker::EndpointConfig", ProductionVariants=[VARIANT], **properties)


def project(**properties):
    usual = {
        "ServiceRole": "r",
        "Source": {"Type": "NO_SOURCE", "BuildSpec": "version: 0.2"},
        "Artifacts": {"Type": "NO_ARTIFACTS"},
        "Environment": {"Type": "LINUX_CONTAINER", "Image": "i", "ComputeType": "BUILD_GENERAL1_SMALL"},
    }
    return resource("AWS::CodeBuild::Project", **usual | properties)


@pytest.mark.parametrize(
    ("resources", "complaint"),
    [
        ({"Odd": resource("AWS::Lambda::Function")}, r"\[Odd \(AWS::Lambda"),
        ({"Odd": resource("AWS::SageMaker::InferenceComponent")}, "Odd: "),
        ({"Odd": config()}, "ProductionVariant without ModelName"),
        ({"Odd": config(AsyncInferenceConfig=ASYNCHRONOUS)}, "CreateEndpointConfig.AsyncInferenceConfig"),
        ({"Odd": config(ShadowProductionVariants=[VARIANT])}, "EndpointConfig.ShadowProductionVariants"),
        ({"Odd": project(Source={"Type": "GITHUB", "Location": "x"})}, "ProjectSource.type=GITHUB"),
        ({"Odd": project(Triggers={"Webhook": True})}, "property Triggers of AWS::CodeBuild::Project"),
        ({"Odd": project(Environment={"Type": "LINUX_CONTAINER", "Speed": 1})}, "Environment.Speed"),
        ({"Odd": parameter(Colour="red")}, "Odd: property Colour"),
        (
            {"Odd": resource("AWS::S3::Bucket", VersioningConfiguration={"Status": "Enabled", "Speed": 1})},
            "property VersioningConfiguration.Speed",
        ),
        (
            {"Odd": resource("AWS::ECR::Repository", ImageScanningConfiguration={"ScanOnPull": True})},
            "property ImageScanningConfiguration.ScanOnPull",
        ),
        ({"Odd": resource("AWS::SSM::Parameter", Type="String")}, "needs property Value"),
        ({"Odd": parameter({"Ref": "Nothing"})}, r"\[Nothing\]"),
        ({"Odd": parameter({"Fn::GetAtt": ["P", "Colour"]}), "P": parameter()}, "has no attribute Colour"),
        ({"Odd": parameter({"Fn::GetAtt": ["Odd", "Value"]})}, "Circular dependency"),
    ],
)
def test_unknown_types_and_properties_are_rejected_before_creation(stack, resources, complaint):
    for attempt in (stack.create, lambda given: stack.propose(given, kind="CREATE")):
        with pytest.raises(ClientError, match=complaint):
            attempt({"Good": parameter(), **resources})
    assert stack.cloudformation.describe_stacks()["Stacks"] == []
    assert stack.parameters() == {}


def test_iam_resources_require_a_capability(stack):
    role = resource("AWS::IAM::Role", AssumeRolePolicyDocument={"Statement": []}, RoleName="named")
    with pytest.raises(ClientError, match="CAPABILITY_NAMED_IAM") as caught:
        stack.create({"R": role}, Capabilities=["CAPABILITY_IAM"])
    assert caught.value.response["Error"]["Code"] == "InsufficientCapabilitiesException"


def test_a_failed_creation_leaves_nothing(stack):
    status = stack.create({"Good": parameter(), "Bad": broken("Good"), "Never": parameter({"Ref": "Bad"})})
    assert status == "ROLLBACK_COMPLETE"
    assert "no-such-key" in stack.reasons()
    happened = stack.events()
    assert ("Bad", "CREATE_FAILED") in happened
    assert ("Good", "DELETE_COMPLETE") in happened
    assert ("Never", "CREATE_IN_PROGRESS") not in happened
    assert stack.parameters() == {}
    for attempt in (stack.update, stack.propose):
        with pytest.raises(ClientError, match="ROLLBACK_COMPLETE"):
            attempt({"Good": parameter()})
    with pytest.raises(ClientError, match="AlreadyExistsException"):
        stack.create({"Good": parameter()})
    # GetTemplate returns the template that failed.
    assert "broken" in str(stack.cloudformation.get_template(StackName="stack")["TemplateBody"])
    assert stack.delete() == "DELETE_COMPLETE"
    assert stack.create({"Good": parameter()}) == "CREATE_COMPLETE"


def test_retained_resources_survive_stack_deletion(stack):
    stack.create({"Kept": {**parameter(Name="/kept"), "DeletionPolicy": "Retain"}, "Gone": parameter()})
    stack_id = stack.described()["StackId"]
    assert stack.delete() == "DELETE_COMPLETE"
    assert ("Kept", "DELETE_SKIPPED") in stack.events(stack_id)
    assert list(stack.parameters()) == ["/kept"]


def test_an_undeletable_resource_leaves_the_stack_in_delete_failed(stack):
    stack.create(
        {"Store": resource("AWS::S3::Bucket", BucketName="full-of-things"), "Other": parameter(Name="/other")}
    )
    s3 = stack.account.client("s3")
    s3.put_object(Bucket="full-of-things", Key="a", Body=b"")
    assert stack.delete() == "DELETE_FAILED"
    assert "not empty" in stack.reasons()
    assert stack.parameters() == {}
    s3.delete_object(Bucket="full-of-things", Key="a")
    assert stack.delete() == "DELETE_COMPLETE"
    assert s3.list_buckets()["Buckets"] == []


def test_a_protected_stack_is_not_deleted(stack):
    stack.create({"P": parameter()})
    stack.cloudformation.update_termination_protection(StackName="stack", EnableTerminationProtection=True)
    with pytest.raises(ClientError, match="TerminationProtection is enabled"):
        stack.delete()
    stack.cloudformation.update_termination_protection(StackName="stack", EnableTerminationProtection=False)
    assert stack.delete() == "DELETE_COMPLETE"


def test_manually_deleted_resources_do_not_block_removal_or_deletion(stack):
    ssm, made = stack.account.client("ssm"), {"P": parameter(Name="/p"), "Aside": parameter(Name="/aside")}
    stack.create(made)
    ssm.delete_parameter(Name="/aside")
    # Unchanged resources are not checked; the resource removed from the template is already deleted.
    assert stack.update({"P": made["P"], "More": parameter(Name="/more")}) == "UPDATE_COMPLETE"
    ssm.delete_parameter(Name="/p")
    assert stack.delete() == "DELETE_COMPLETE"
    assert stack.account.inventory() == []


def test_a_stack_runs_one_operation_at_a_time(stack):
    stack.create({"P": parameter()})
    rejected = []

    def update(number):
        try:
            StackDriver(stack.account).update({"P": parameter(), f"P{number}": parameter(str(number))})
        except ClientError as error:
            rejected.append(str(error))

    with ThreadPoolExecutor() as pool:
        list(pool.map(update, range(4)))
    assert stack.settled() == "UPDATE_COMPLETE"
    assert all("_IN_PROGRESS" in reason for reason in rejected)
    assert stack.delete() == "DELETE_COMPLETE"
    assert stack.account.inventory() == []


def test_accounts_and_regions_are_isolated(stack, running_cloud):
    stack.create({"P": parameter(Name="/same")})
    stranger = StackDriver(type(stack.account)(running_cloud.endpoint_url))
    assert stranger.cloudformation.describe_stacks()["Stacks"] == []
    assert stranger.create({"P": parameter(Name="/same")}) == "CREATE_COMPLETE"
    elsewhere = StackDriver(
        type(stack.account)(running_cloud.endpoint_url, stack.account.account_id, "us-east-1")
    )
    assert elsewhere.cloudformation.describe_stacks()["Stacks"] == []
