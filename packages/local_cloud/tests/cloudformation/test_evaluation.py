"""Intrinsic functions, values unknown before deployment, and errors."""

import pytest

from tritonstack_local.cloudformation.errors import TemplateError
from tritonstack_local.cloudformation.evaluation import UnknownValue, resolve

LATER = UnknownValue("New.Arn")


class World:
    def reference(self, name):
        known = {"Name": "n", "List": ["a", "b"], "Number": 3, "AWS::Region": "eu", "Zero": 0}
        return known.get(name, LATER)

    def attribute(self, logical_id, attribute):
        return f"{logical_id}/{attribute}" if logical_id == "Old" else LATER

    def condition(self, name):
        return name == "Yes"

    def availability_zones(self, region):
        return [f"{region}a", f"{region}b"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"Ref": "Name"}, "n"),
        ({"Fn::GetAtt": ["Old", "Arn"]}, "Old/Arn"),
        ({"Fn::GetAtt": "Old.Some.Part"}, "Old/Some.Part"),
        ({"Fn::Join": ["-", ["a", {"Ref": "Number"}, True]]}, "a-3-true"),
        ({"Fn::Join": [",", {"Ref": "List"}]}, "a,b"),
        ({"Fn::Sub": "${Name}/${Old.Arn}/${!Literal}"}, "n/Old/Arn/${Literal}"),
        ({"Fn::Sub": ["${Mine}-${Name}", {"Mine": {"Ref": "Number"}}]}, "3-n"),
        ({"Fn::Select": ["1", {"Ref": "List"}]}, "b"),
        ({"Fn::Split": ["/", "a/b"]}, ["a", "b"]),
        ({"Fn::If": ["Yes", 1, {"Fn::Unheard": 0}]}, 1),
        ({"Fn::If": ["No", {"Fn::Unheard": 0}, 2]}, 2),
        ({"Fn::GetAZs": ""}, ["eua", "eub"]),
        ({"Fn::Equals": [{"Ref": "Number"}, "3"]}, True),
        ({"Fn::And": [{"Condition": "Yes"}, {"Fn::Not": [{"Condition": "No"}]}]}, True),
        ({"Fn::Or": [{"Condition": "No"}, {"Fn::Equals": ["a", "b"]}]}, False),
        ({"Fn::Contains": [["1", "2"], "2"]}, True),
        ({"a": {"Ref": "AWS::NoValue"}, "b": [1, {"Ref": "AWS::NoValue"}]}, {"b": [1]}),
        # A policy's Condition is not the function Condition, which takes a name.
        ({"Condition": {"Bool": {"x": "true"}}}, {"Condition": {"Bool": {"x": "true"}}}),
    ],
)
def test_functions(value, expected):
    assert resolve(value, World()) == expected


@pytest.mark.parametrize(
    "value",
    [
        {"Ref": "New"},
        {"Fn::Join": ["", ["a", {"Ref": "New"}]]},
        {"Fn::Sub": "x${New}"},
        {"Fn::Split": [",", {"Ref": "New"}]},
        {"Fn::Select": [0, {"Fn::Split": [",", {"Fn::GetAtt": ["New", "Arn"]}]}]},
    ],
)
def test_values_of_new_resources_are_unknown(value):
    assert resolve(value, World()) == LATER


def test_a_known_item_of_a_partly_unknown_list_is_known():
    assert resolve({"Fn::Select": [1, [{"Ref": "New"}, "known"]]}, World()) == "known"


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ({"Fn::Transform": {}}, "Fn::Transform is not implemented"),
        ({"Fn::ImportValue": "x"}, "Fn::ImportValue is not implemented"),
        ({"Fn::Join": ["a"]}, "Fn::Join takes a list of 2"),
        ({"Fn::Select": [5, ["a"]]}, "nonexistent value at index 5"),
        ({"Fn::GetAtt": "JustAName"}, "logical id and an attribute"),
        ("{{resolve:secretsmanager:x}}", "Dynamic references are not implemented"),
    ],
)
def test_unresolvable_references_are_rejected(value, complaint):
    with pytest.raises(TemplateError, match=complaint):
        resolve(value, World())
