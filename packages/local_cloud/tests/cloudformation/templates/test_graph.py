"""Dependencies between resources, and cycles."""

import json

import pytest

from tritonstack_local.cloudformation.errors import TemplateError
from tritonstack_local.cloudformation.templates.graph import dependencies, in_order
from tritonstack_local.cloudformation.templates.template import parse_template


def graph_of(resources):
    template = parse_template(json.dumps({"Resources": resources}))
    return dependencies(template.resources, declared=template.resources)


def test_references_of_every_kind_are_found():
    graph = graph_of(
        {
            "A": {"Type": "T", "Properties": {"x": [{"Ref": "B"}, {"Ref": "AWS::Region"}]}},
            "B": {"Type": "T", "Properties": {"x": {"Fn::If": ["c", {"Fn::GetAtt": ["C", "Arn"]}, 1]}}},
            "C": {
                "Type": "T",
                "Properties": {"x": {"Fn::Sub": ["${D.Arn} ${y} ${!E}", {"y": {"Ref": "F"}}]}},
            },
            "D": {"Type": "T", "DependsOn": ["F"]},
            "E": {"Type": "T"},
            "F": {"Type": "T"},
        }
    )
    assert graph == {"A": {"B"}, "B": {"C"}, "C": {"D", "F"}, "D": {"F"}, "E": set(), "F": set()}
    order = in_order(graph)
    assert [name for name in order if name != "E"] == ["F", "D", "C", "B", "A"]


def test_a_dependency_cycle_is_reported():
    with pytest.raises(TemplateError, match="Circular dependency") as caught:
        in_order(graph_of({"A": {"Type": "T", "DependsOn": "B"}, "B": {"Type": "T", "DependsOn": "A"}}))
    assert "A -> B -> A" in str(caught.value) or "B -> A -> B" in str(caught.value)


def test_a_dependency_on_a_missing_resource_is_rejected():
    with pytest.raises(TemplateError, match=r"\[Nothing\]"):
        graph_of({"A": {"Type": "T", "DependsOn": "Nothing"}})
