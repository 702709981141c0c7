"""Resolve the references of a template; some stay unknown."""

import pytest

from tritonstack.operate.verify.expectations import UNKNOWN, Resolver, StackFacts

TEMPLATE = {
    "Parameters": {
        "Key": {"Type": "AWS::SSM::Parameter::Value<String>"},
        "Subnets": {"Type": "AWS::SSM::Parameter::Value<List<String>>"},
        "Later": {"Type": "String"},
    },
    "Resources": {
        "Model": {"Type": "AWS::SageMaker::Model", "Properties": {}},
        "Role": {"Type": "AWS::IAM::Role", "Properties": {}},
        "Placed": {"Type": "AWS::IAM::Role", "Properties": {"Path": "/team/"}},
        "Topic": {"Type": "AWS::SNS::Topic", "Properties": {}},
        "New": {"Type": "AWS::SageMaker::Model", "Properties": {}},
        "Key": {"Type": "AWS::KMS::Key", "Properties": {}},
    },
}
FACTS = StackFacts(
    name="stack",
    account="111111111111",
    region="eu-west-1",
    resources={
        "Model": "arn:aws:sagemaker:eu-west-1:111111111111:model/stack-model-1a",
        "Role": "stack-role-1a",
        "Placed": "stack-placed-1a",
        "Topic": "arn:aws:sns:eu-west-1:111111111111:topic",
    },
    parameters={"Key": "arn:key", "Subnets": "subnet-1,subnet-2"},
)


@pytest.mark.parametrize(
    ("value", "resolved"),
    [
        ({"Ref": "AWS::AccountId"}, "111111111111"),
        ({"Ref": "AWS::Partition"}, "aws"),
        ({"Ref": "AWS::StackId"}, UNKNOWN),
        ({"Ref": "Key"}, "arn:key"),
        ({"Ref": "Subnets"}, ["subnet-1", "subnet-2"]),
        ({"Ref": "Later"}, UNKNOWN),
        ({"Ref": "Model"}, FACTS.resources["Model"]),
        ({"Ref": "New"}, UNKNOWN),
        ({"Fn::GetAtt": ["Model", "ModelName"]}, "stack-model-1a"),
        ({"Fn::GetAtt": "Model.ModelName"}, "stack-model-1a"),
        ({"Fn::GetAtt": ["New", "ModelName"]}, UNKNOWN),
        ({"Fn::GetAtt": ["Role", "Arn"]}, "arn:aws:iam::111111111111:role/stack-role-1a"),
        ({"Fn::GetAtt": ["Placed", "Arn"]}, UNKNOWN),
        ({"Fn::GetAtt": ["Topic", "TopicArn"]}, "arn:aws:sns:eu-west-1:111111111111:topic"),
        ({"Fn::GetAtt": ["Topic", "Size"]}, UNKNOWN),
        ({"Fn::Join": ["/", ["a", {"Ref": "AWS::Region"}]]}, "a/eu-west-1"),
        ({"Fn::Join": [",", {"Ref": "Subnets"}]}, "subnet-1,subnet-2"),
        ({"Fn::Join": ["/", ["a", {"Ref": "New"}]]}, UNKNOWN),
        ({"Fn::Split": [",", {"Fn::Join": [",", {"Ref": "Subnets"}]}]}, ["subnet-1", "subnet-2"]),
        ({"Fn::Split": [",", {"Ref": "New"}]}, UNKNOWN),
        ({"Fn::Select": [1, {"Ref": "Subnets"}]}, "subnet-2"),
        ({"Fn::Select": ["0", {"Ref": "Later"}]}, UNKNOWN),
        ({"Fn::Sub": "${AWS::Region}/${Model.ModelName}/${!kept}"}, "eu-west-1/stack-model-1a/${kept}"),
        ({"Fn::Sub": ["${name}/${Key}", {"name": {"Ref": "AWS::StackName"}}]}, "stack/arn:key"),
        ({"Fn::Sub": "${New}"}, UNKNOWN),
        ({"Fn::If": ["a", "b", "c"]}, UNKNOWN),
        ({"a": [{"Ref": "Key"}, 1], "b": {"Ref": "AWS::NoValue"}}, {"a": ["arn:key", 1]}),
    ],
)
def test_a_value_of_a_template(value, resolved):
    assert Resolver(TEMPLATE, FACTS).value(value) == resolved


@pytest.mark.parametrize(
    ("region", "partition", "suffix"),
    [
        ("eu-west-1", "aws", "amazonaws.com"),
        ("cn-north-1", "aws-cn", "amazonaws.com.cn"),
        ("us-gov-west-1", "aws-us-gov", "amazonaws.com"),
    ],
)
def test_parts_of_aws(region, partition, suffix):
    facts = StackFacts("stack", "111111111111", region)
    assert (facts.partition, facts.pseudo("AWS::URLSuffix")) == (partition, suffix)
