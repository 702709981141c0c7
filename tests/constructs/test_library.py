"""The constructs in another app: the documented example, and clear errors."""

import json
import re
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import cdk_nag
import pytest
from aws_cdk import aws_s3 as s3
from aws_cdk.assertions import Template
from constructs import Construct

from tests.stacks.assemblies import ROOT
from tests.stacks.templates import production, properties
from tritonstack import constructs
from tritonstack.base.errors import UsageError
from tritonstack.constructs import (
    ModelArchive,
    ModelPrefix,
    TritonEndpoint,
    TritonImage,
    TritonModel,
    TritonVariant,
)
from tritonstack.constructs.endpoint.triton_model import container_environment
from tritonstack.files.endpoint.endpoint import Asynchronous, Components, ServingOptions
from tritonstack.files.endpoint.rollouts import AllAtOnce, Canary
from tritonstack.files.endpoint.scaling import Scaling

ARCHIVE = ModelArchive("s3://my-models/encoder/7.tar.gz", entry_model="encoder")
IMAGE = TritonImage("25.04", instance_type="ml.c7i.xlarge")
AMI = "al2023-ami-sagemaker-inference-gpu-4-1"


@pytest.fixture
def stack() -> cdk.Stack:
    environment = cdk.Environment(account="123456789012", region="eu-central-1")
    return cdk.Stack(cdk.App(), "mine", env=environment)


def serve(stack: cdk.Stack, **options: Any) -> Template:
    """Return the template of a stack with one endpoint."""
    more = {name: options.pop(name) for name in ("key_arn", "data_bucket") if name in options}
    model = TritonModel(stack, "Model", data=ARCHIVE, image=IMAGE, key_arn=more.get("key_arn"))
    TritonEndpoint(
        stack,
        "Endpoint",
        endpoint_name="search",
        variants=[TritonVariant(model, instance_type="ml.c7i.xlarge")],
        options=ServingOptions(**options),
        **more,
    )
    return Template.from_stack(stack)


def warnings_of(scope: Construct) -> list[str]:
    return [
        str(entry.data)
        for construct in scope.node.find_all()
        for entry in construct.node.metadata
        if entry.type == "aws:cdk:warning"
    ]


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> cdk.App:
    """The synthesized app of the documentation."""
    text = (ROOT / "docs" / "constructs.md").read_text()
    (code,) = [block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "cdk.App" in block]
    folder = tmp_path_factory.mktemp("example")
    checked = "cdk.Validations.of(app).add_plugins(nag(app))\napp.synth()"
    assert code.count("cdk.App()") == code.count("app.synth()") == 1
    code = code.replace("cdk.App()", f"cdk.App(outdir={str(folder)!r}, context=context)")
    # What the rules find is looked at below, and is not to end the synthesis.
    context = {"@aws-cdk/core:failSynthOnValidationErrors": False}
    names: dict[str, Any] = {
        "context": context,
        "nag": lambda app: cdk_nag.AwsSolutionsChecks(app, verbose=True),
    }
    exec(compile(code.replace("app.synth()", checked), "constructs.md", "exec"), names)  # noqa: S102
    app: cdk.App = names["app"]
    return app


@pytest.fixture(scope="module")
def documented(example: cdk.App) -> Template:
    return Template.from_json(json.loads((Path(example.outdir) / "search.template.json").read_text()))


def test_the_documented_app_serves_from_its_own_bucket_with_its_own_key(documented):
    (bucket,) = documented.find_resources("AWS::S3::Bucket")
    (key,) = documented.find_resources("AWS::KMS::Key")
    models = documented.find_resources("AWS::SageMaker::Model").values()
    assert len(models) == 2
    for model in models:
        url = model["Properties"]["PrimaryContainer"]["ModelDataUrl"]["Fn::Join"][1]
        assert {"Ref": bucket} in url
    policies = documented.find_resources("AWS::IAM::Policy").values()
    assert len(policies) == 2
    for policy in policies:
        decrypting = [
            s
            for s in policy["Properties"]["PolicyDocument"]["Statement"]
            if "kms:Decrypt" in s["Action"] and s["Condition"]
        ]
        assert {json.dumps(s["Resource"]) for s in decrypting} == {json.dumps([{"Fn::GetAtt": [key, "Arn"]}])}


def test_every_pattern_in_the_documented_apps_roles_is_explained(example):
    """Including patterns with names that only the deploy knows; the bucket's missing log is the app's own."""
    (report,) = [
        plugin
        for plugin in json.loads((Path(example.outdir) / "validation-report.json").read_text())[
            "pluginReports"
        ]
        if plugin["pluginName"] == "AwsSolutions"
    ]
    assert {violation["ruleName"] for violation in report["violations"]} == {"AwsSolutions-S1"}


@pytest.mark.parametrize(
    ("region", "instance_type", "price", "warned"),
    [
        ("eu-central-1", "ml.c7i.xlarge", None, True),
        ("eu-central-1", "ml.c7i.xlarge", 0.21, False),
        ("eu-west-1", "ml.c7i.xlarge", None, False),
        # In no price list: newer than the table, or another partition.
        ("eu-central-1", "ml.p5e.48xlarge", None, False),
        ("cn-north-1", "ml.c7i.xlarge", None, False),
    ],
)
def test_warns_if_the_region_lacks_the_instance_type(region, instance_type, price, warned):
    stack = cdk.Stack(cdk.App(), "mine", env=cdk.Environment(region=region))
    model = TritonModel(
        stack, "Model", data=ARCHIVE, image="123456789012.dkr.ecr.eu-west-1.amazonaws.com/t:1"
    )
    variants = [TritonVariant(model, instance_type=instance_type, price_per_hour=price)]
    TritonEndpoint(stack, "Endpoint", endpoint_name="search", variants=variants)
    assert [instance_type in warning for warning in warnings_of(stack)] == [True] * warned


@pytest.mark.parametrize("name", sorted(constructs._HOMES))
def test_every_public_name_exists_and_is_documented(name):
    assert getattr(constructs, name).__name__ == name
    assert f"`{name}`" in (ROOT / "docs" / "constructs.md").read_text()


@pytest.mark.parametrize(("instance_type", "chosen"), [("ml.c7i.xlarge", None), ("ml.g5.xlarge", AMI)])
def test_a_host_image_with_a_compatible_driver_is_chosen(stack, instance_type, chosen):
    image = TritonImage("25.09", instance_type=instance_type)
    model = TritonModel(stack, "Model", data=ARCHIVE, image=image)
    variants = [TritonVariant(model, instance_type=instance_type)]
    TritonEndpoint(stack, "Endpoint", endpoint_name="search", variants=variants)
    assert production(Template.from_stack(stack)).get("InferenceAmiVersion") == chosen


@pytest.mark.parametrize("data", [ARCHIVE, ModelPrefix("s3://my-models/shelf/")])
@pytest.mark.parametrize(
    "name", ["SAGEMAKER_TRITON_DEFAULT_MODEL_NAME", "SAGEMAKER_TRITON_PING_MODE", "SAGEMAKER_MULTI_MODEL"]
)
def test_derived_variables_cannot_be_set(data, name):
    with pytest.raises(UsageError, match=f"environment: {name}: "):
        container_environment(data, {name: "x", "OTHER": "y"})


@pytest.mark.parametrize(
    ("release", "instance_type", "words"),
    [("25.04", "ml.g5.xlrage", r"'ml\.g5\.xlarge'"), ("25.05", "ml.g5.xlarge", r"'25\.05'")],
)
def test_an_unknown_instance_type_or_release_is_rejected(release, instance_type, words):
    with pytest.raises(UsageError, match=words):
        TritonImage(release, instance_type=instance_type).uri("eu-central-1")


COMPONENT = Components(memory_mb=1024)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"asynchronous": Asynchronous()}, "data_bucket"),
        ({"components": COMPONENT, "rollout": Canary(strategy="canary")}, r"^search: rollout\.strategy: "),
        ({"scaling": Scaling(min_instances=0)}, r"^search: scaling\.min_instances: "),
        # These would be silently ignored.
        ({"network_isolation": False}, "TritonModel and TritonEndpoint"),
        ({"rollout": AllAtOnce(roll_back_on=("backlog",))}, "'backlog'"),
    ],
)
def test_options_rejected_in_files_are_rejected_in_apps(stack, options, words):
    with pytest.raises(UsageError, match=words):
        serve(stack, **options)


def endpoint(stack: cdk.Stack, *variants: TritonVariant, name: str = "search", **options: Any) -> None:
    TritonEndpoint(
        stack, "Endpoint", endpoint_name=name, variants=variants, options=ServingOptions(**options)
    )


def variants_named(stack: cdk.Stack, *names: str, **more: Any) -> list[TritonVariant]:
    return [
        TritonVariant(
            TritonModel(stack, f"Model{index}", data=ARCHIVE, image=IMAGE),
            instance_type="ml.c7i.xlarge",
            name=name,
            **(more if index else {}),
        )
        for index, name in enumerate(names)
    ]


@pytest.mark.parametrize(
    ("names", "more", "words"),
    [
        ((), {}, "production variant"),
        (("main", "main"), {}, "duplicate variant name"),
        (("main", "one", "two"), {"shadow": True}, "one shadow variant"),
    ],
)
def test_variants_rejected_by_sagemaker(stack, names, more, words):
    with pytest.raises(UsageError, match=words):
        endpoint(stack, *variants_named(stack, *names, **more))


OWN_IMAGE = "123456789012.dkr.ecr.eu-central-1.amazonaws.com/triton:1"


def test_only_the_image_must_be_a_literal():
    stack = cdk.Stack(cdk.App(), "anywhere")
    name = cdk.CfnParameter(stack, "Name").value_as_string
    bucket = s3.Bucket(stack, "Data")
    url = bucket.s3_url_for_object("encoder.tar.gz")
    model = TritonModel(stack, "Model", data=ModelArchive(url, entry_model="encoder"), image=OWN_IMAGE)
    TritonEndpoint(
        stack,
        "Endpoint",
        endpoint_name=name,
        variants=[TritonVariant(model, instance_type="ml.c7i.xlarge")],
        options=ServingOptions(asynchronous=Asynchronous(), scaling=Scaling(min_instances=0)),
        data_bucket=bucket.bucket_name,
    )
    template = Template.from_stack(stack)
    assert properties(template, "AWS::SageMaker::Endpoint")["EndpointName"] == {"Ref": "Name"}
    text = json.dumps(template.to_json()["Resources"])
    assert "${Token[" not in text
    assert "arn:aws:" not in text


def test_the_log_group_is_retained_by_default(stack):
    (log,) = serve(stack).find_resources("AWS::Logs::LogGroup").values()
    assert log["DeletionPolicy"] == "RetainExceptOnCreate"
