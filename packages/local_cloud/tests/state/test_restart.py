"""A restart restores moto's services, SageMaker's records, and stacks."""

import hashlib
import json
import threading
import time
from unittest.mock import patch

import pytest

from packages.local_cloud.tests.cloudformation.stacks import StackDriver, parameter
from packages.local_cloud.tests.sagemaker.cloud import IMAGE, role_of
from packages.local_cloud.tests.state.restartable_cloud import IN_EUROPE
from tritonstack_local.cloudformation.providers.base import Provider, ProviderError

TRUST = json.dumps({"Version": "2012-10-17", "Statement": []})
ALLOW = json.dumps(
    {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
)
MANAGED = "arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess"


def s3(cloud):
    client = cloud.client("s3")
    name = f"b-{cloud.account_id}"
    if not client.list_buckets()["Buckets"]:
        client.create_bucket(Bucket=name, CreateBucketConfiguration=IN_EUROPE)
        client.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
        client.put_object(Bucket=name, Key="k", Body=b"one" * 10)
        client.put_object(Bucket=name, Key="k", Body=b"two" * 10, Metadata={"a": "b"})
        client.put_object(Bucket=name, Key="gone", Body=b"")
        client.delete_object(Bucket=name, Key="gone")
        upload = client.create_multipart_upload(Bucket=name, Key="parts")["UploadId"]
        part = client.upload_part(Bucket=name, Key="parts", UploadId=upload, PartNumber=1, Body=b"half")
        client.complete_multipart_upload(
            Bucket=name,
            Key="parts",
            UploadId=upload,
            MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]},
        )
    versions = client.list_object_versions(Bucket=name)
    return [
        client.get_object(Bucket=name, Key="parts")["Body"].read(),
        client.head_object(Bucket=name, Key="k")["Metadata"],
        [
            (v["VersionId"], client.get_object(Bucket=name, Key="k", VersionId=v["VersionId"])["Body"].read())
            for v in versions["Versions"]
            if v["Key"] == "k"
        ],
        [marker["Key"] for marker in versions["DeleteMarkers"]],
    ]


def iam(cloud):
    client = cloud.client("iam")
    if not client.list_roles()["Roles"]:
        client.create_role(RoleName="r", AssumeRolePolicyDocument=TRUST)
        client.attach_role_policy(RoleName="r", PolicyArn=MANAGED)
        own = client.create_policy(PolicyName="own", PolicyDocument=ALLOW)["Policy"]["Arn"]
        client.attach_role_policy(RoleName="r", PolicyArn=own)
    attached = client.list_attached_role_policies(RoleName="r")["AttachedPolicies"]
    counts = [
        client.get_policy(PolicyArn=item["PolicyArn"])["Policy"]["AttachmentCount"] for item in attached
    ]
    return attached, counts, len(client.list_policies(Scope="AWS", MaxItems=1000)["Policies"])


def sts(cloud):
    """Issued credentials still identify the caller."""
    import boto3

    if not hasattr(cloud, "issued"):
        made = cloud.client("iam").create_role(RoleName="any", AssumeRolePolicyDocument=TRUST)
        role = made["Role"]["Arn"]
        cloud.issued = cloud.client("sts").assume_role(RoleArn=role, RoleSessionName="me")["Credentials"]
    client = boto3.client(
        "sts",
        endpoint_url=cloud.cloud.endpoint_url,
        region_name="eu-west-1",
        aws_access_key_id=cloud.issued["AccessKeyId"],
        aws_secret_access_key=cloud.issued["SecretAccessKey"],
        aws_session_token=cloud.issued["SessionToken"],
    )
    return client.get_caller_identity()["Arn"]


def kms(cloud):
    client = cloud.client("kms")
    if not hasattr(cloud, "cipher"):
        key = client.create_key()["KeyMetadata"]["KeyId"]
        client.create_alias(AliasName="alias/a", TargetKeyId=key)
        cloud.cipher = client.encrypt(KeyId=key, Plaintext=b"secret")["CiphertextBlob"]
        cloud.signing = client.create_key(KeySpec="ECC_NIST_P256", KeyUsage="SIGN_VERIFY")["KeyMetadata"][
            "KeyId"
        ]
    return (
        client.decrypt(CiphertextBlob=cloud.cipher)["Plaintext"],
        client.get_public_key(KeyId=cloud.signing)["PublicKey"],
        [
            alias["TargetKeyId"]
            for alias in client.list_aliases()["Aliases"]
            if alias["AliasName"] == "alias/a"
        ],
    )


def ec2(cloud):
    client = cloud.client("ec2")
    # The default VPC is created on first access, and persists from then on.
    if len(client.describe_vpcs()["Vpcs"]) == 1:
        vpc = client.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        client.create_subnet(VpcId=vpc, CidrBlock="10.0.0.0/24")
        client.create_security_group(GroupName="g", Description="d", VpcId=vpc)
        table = client.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"]
        client.create_vpc_endpoint(VpcId=vpc, ServiceName="com.amazonaws.eu-west-1.s3", RouteTableIds=[table])
        client.create_flow_logs(
            ResourceIds=[vpc],
            ResourceType="VPC",
            TrafficType="ALL",
            LogDestinationType="s3",
            LogDestination="arn:aws:s3:::nowhere-at-all",
        )
    return (
        client.describe_vpcs()["Vpcs"],
        client.describe_subnets()["Subnets"],
        client.describe_security_groups()["SecurityGroups"],
        client.describe_vpc_endpoints()["VpcEndpoints"],
        client.describe_route_tables()["RouteTables"],
    )


def logs(cloud):
    client = cloud.client("logs")
    if not client.describe_log_groups()["logGroups"]:
        client.create_log_group(logGroupName="g")
        client.create_log_stream(logGroupName="g", logStreamName="s")
        events = [{"timestamp": int(time.time() * 1000), "message": f"line {n}"} for n in range(100)]
        client.put_log_events(logGroupName="g", logStreamName="s", logEvents=events)
        client.put_metric_filter(
            logGroupName="g",
            filterName="f",
            filterPattern="x",
            metricTransformations=[{"metricName": "m", "metricNamespace": "n", "metricValue": "1"}],
        )
    found = client.get_log_events(logGroupName="g", logStreamName="s")["events"]
    return found, client.describe_metric_filters(logGroupName="g")["metricFilters"]


def cloudwatch(cloud):
    client = cloud.client("cloudwatch")
    if not client.describe_alarms()["MetricAlarms"]:
        client.put_metric_data(Namespace="n", MetricData=[{"MetricName": "dropped", "Value": 1.0}])
        client.put_metric_alarm(
            AlarmName="a",
            MetricName="m",
            Namespace="n",
            Statistic="Sum",
            Period=60,
            EvaluationPeriods=1,
            Threshold=1,
            ComparisonOperator="GreaterThanThreshold",
            # The metric has no values, so that no evaluation changes the state, however long the test takes.
            TreatMissingData="ignore",
        )
        client.set_alarm_state(AlarmName="a", StateValue="ALARM", StateReason="set")
        client.put_dashboard(DashboardName="d", DashboardBody="{}")
    history = client.describe_alarm_history(AlarmName="a")["AlarmHistoryItems"]
    dashboard = client.get_dashboard(DashboardName="d")["DashboardBody"]
    return client.describe_alarms()["MetricAlarms"], history, dashboard


def messages(cloud):
    sns, sqs, events = (cloud.client(name) for name in ("sns", "sqs", "events"))
    if not sns.list_topics()["Topics"]:
        topic = sns.create_topic(Name="t")["TopicArn"]
        url = sqs.create_queue(QueueName="q")["QueueUrl"]
        queue = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=queue)
        events.put_rule(Name="r", EventPattern='{"source":["x"]}')
        events.put_targets(Rule="r", Targets=[{"Id": "1", "Arn": queue}])
        # Changes that one service makes in another are persisted, too.
        sns.publish(TopicArn=topic, Message="said before")
    url = sqs.get_queue_url(QueueName="q")["QueueUrl"].rpartition("/")[2]
    attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages"])
    return (
        sns.list_subscriptions()["Subscriptions"],
        events.list_targets_by_rule(Rule="r")["Targets"],
        attributes["Attributes"],
    )


LAYER = f"sha256:{hashlib.sha256(b'x').hexdigest()}"


def the_rest(cloud):
    ssm, ecr, scaling = (cloud.client(name) for name in ("ssm", "ecr", "application-autoscaling"))
    if not ssm.describe_parameters()["Parameters"]:
        ssm.put_parameter(Name="/p", Value="v", Type="String")
        ssm.add_tags_to_resource(ResourceType="Parameter", ResourceId="/p", Tags=[{"Key": "a", "Value": "b"}])
        ecr.create_repository(repositoryName="images")
        upload = ecr.initiate_layer_upload(repositoryName="images")["uploadId"]
        part = {"partFirstByte": 0, "partLastByte": 0, "layerPartBlob": b"x"}
        ecr.upload_layer_part(repositoryName="images", uploadId=upload, **part)
        ecr.complete_layer_upload(repositoryName="images", uploadId=upload, layerDigests=[LAYER])
        scaling.register_scalable_target(
            ServiceNamespace="sagemaker",
            ResourceId="endpoint/e/variant/v",
            MinCapacity=1,
            MaxCapacity=2,
            ScalableDimension="sagemaker:variant:DesiredInstanceCount",
        )
        cloud.client("secretsmanager").create_secret(Name="s", SecretString="secret")
    return (
        ssm.get_parameter(Name="/p")["Parameter"],
        ecr.batch_check_layer_availability(repositoryName="images", layerDigests=[LAYER])["layers"],
        ssm.list_tags_for_resource(ResourceType="Parameter", ResourceId="/p")["TagList"],
        ecr.describe_repositories()["repositories"],
        scaling.describe_scalable_targets(ServiceNamespace="sagemaker")["ScalableTargets"],
        cloud.client("secretsmanager").get_secret_value(SecretId="s")["SecretString"],
    )


TOLD = (s3, iam, sts, kms, ec2, logs, cloudwatch, messages, the_rest)


def test_every_service_is_restored_after_a_restart(cloud):
    before = {told.__name__: told(cloud) for told in TOLD}
    # Twice: restored state can be saved again.
    for _ in range(2):
        cloud.restart()
        assert {told.__name__: told(cloud) for told in TOLD} == before


def test_sagemaker_records_are_restored(cloud):
    sagemaker = cloud.client("sagemaker")
    tags = [{"Key": "team", "Value": "search"}]
    sagemaker.create_model(
        ModelName="m", ExecutionRoleArn=role_of(sagemaker), PrimaryContainer={"Image": IMAGE}, Tags=tags
    )
    sagemaker.create_model(
        ModelName="gone", ExecutionRoleArn=role_of(sagemaker), PrimaryContainer={"Image": IMAGE}
    )
    sagemaker.delete_model(ModelName="gone")
    variant = {"VariantName": "v", "ModelName": "m", "InstanceType": "ml.m5.large", "InitialInstanceCount": 1}
    sagemaker.create_endpoint_config(EndpointConfigName="c", ProductionVariants=[variant])
    cloud.restart()
    again = cloud.client("sagemaker")
    models = again.list_models()["Models"]
    assert [model["ModelName"] for model in models] == ["m"]
    assert again.list_tags(ResourceArn=models[0]["ModelArn"])["Tags"] == tags
    assert again.describe_endpoint_config(EndpointConfigName="c")["ProductionVariants"][0]["ModelName"] == "m"


def test_stacks_are_restored_with_history_and_change_sets(cloud):
    stack = StackDriver(cloud.account)
    first = {"A": parameter(Name="/a"), "B": parameter({"Ref": "A"}, Name="/b")}
    outputs = {"O": {"Value": {"Ref": "B"}, "Export": {"Name": "n"}}}
    stack.create(first, Outputs=outputs)
    second = {**first, "A": parameter(Name="/a2")}
    plan = stack.propose(second, Outputs=outputs)["Changes"]
    before = (stack.described(), stack.events(), stack.physical_ids())
    cloud.restart()
    stack = StackDriver(cloud.account)
    assert (stack.described(), stack.events(), stack.physical_ids()) == before
    shown = stack.cloudformation.describe_change_set(
        StackName="stack", ChangeSetName="plan", IncludePropertyValues=True
    )
    assert shown["Changes"] == plan
    stack.cloudformation.execute_change_set(StackName="stack", ChangeSetName="plan")
    assert stack.settled() == "UPDATE_COMPLETE"
    assert cloud.client("ssm").get_parameter(Name="/b")["Parameter"]["Value"] == "/a2"
    gone = stack.described()["StackId"]
    assert stack.delete() == "DELETE_COMPLETE"
    cloud.restart()
    assert StackDriver(cloud.account).described(gone)["StackStatus"] == "DELETE_COMPLETE"


@pytest.fixture
def hanging():
    """Run an operation until a method of a provider hangs; it ends with the test."""
    started, ended = threading.Event(), threading.Event()

    def hang(*_):
        started.set()
        ended.wait(60)
        raise ProviderError("the cloud has ended")

    def run(method, operation, *arguments):
        with patch.object(Provider, method, hang):
            operation(*arguments)
            assert started.wait(20)

    yield run
    ended.set()


@pytest.mark.parametrize("is_update", [False, True])
def test_an_interrupted_stack_is_rolled_back_and_the_same_deployment_converges(cloud, hanging, *, is_update):
    before = {"P": parameter("before", Name="/p"), "Old": parameter(Name="/old")} if is_update else {}
    after = {"P": parameter("after", Name="/p"), "New": parameter(Name="/new")}
    stack = StackDriver(cloud.account)
    if is_update:
        stack.create(before)
    hanging("read", stack.begin_update if is_update else stack.begin_create, after)
    cloud.restart()
    stack = StackDriver(cloud.account)
    assert stack.settled() == ("UPDATE_ROLLBACK_COMPLETE" if is_update else "ROLLBACK_COMPLETE")
    assert stack.parameters() == ({"/p": "before", "/old": "v"} if is_update else {})
    if is_update:
        assert stack.update(after) == "UPDATE_COMPLETE"
    else:
        assert stack.delete() == "DELETE_COMPLETE"
        assert stack.create(after) == "CREATE_COMPLETE"
    assert stack.parameters() == {"/p": "after", "/new": "v"}


def test_the_same_deployment_completes_an_interrupted_clean_up(cloud, hanging):
    stack = StackDriver(cloud.account)
    kept = {"P": parameter("one", Name="/p")}
    stack.create({**kept, "Old": parameter("two", Name="/old")})
    hanging("delete", stack.begin_update, kept)
    cloud.restart()
    stack = StackDriver(cloud.account)
    assert (stack.settled(), list(stack.parameters())) == ("UPDATE_COMPLETE", ["/old", "/p"])
    assert stack.update(kept) == "UPDATE_COMPLETE"
    assert stack.parameters() == {"/p": "one"}


def test_an_interrupted_deletion_is_repeated(cloud, hanging):
    stack = StackDriver(cloud.account)
    kept = {**parameter(Name="/kept"), "DeletionPolicy": "Retain"}
    stack.create({"P": parameter(Name="/p"), "Kept": kept})
    stack_id = stack.described()["StackId"]
    hanging("delete", lambda: stack.cloudformation.delete_stack(StackName="stack"))
    cloud.restart()
    stack = StackDriver(cloud.account)
    assert stack.settled(stack_id) == "DELETE_COMPLETE"
    assert list(stack.parameters()) == ["/kept"]
