"""Templates in JSON and YAML, their errors, and the values of parameters."""

import gc

import pytest

from tritonstack_local.cloudformation.errors import TemplateError
from tritonstack_local.cloudformation.template import (
    ParameterDeclaration,
    StackParameter,
    parse_template,
    resolve_parameters,
)


def test_yaml_is_read_with_dates_as_text():
    template = parse_template("""
AWSTemplateFormatVersion: 2010-09-09
Resources:
  A: {Type: T, DependsOn: B, Properties: {When: 2010-09-09}}
  B: {Type: T, DeletionPolicy: Retain}
""")
    assert template.resources["A"].properties == {"When": "2010-09-09"}
    assert template.resources["A"].depends_on == ("B",)
    assert template.resources["B"].deletion_policy == "Retain"


ONE = '{"Resources": {"A": {"Type": "T"}}, '


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ("{", "Template format error"),
        ("- a", "unsupported structure"),
        ("{}", "Resources: "),
        ('{"Resources": {}}', "Resources: "),
        (ONE + '"Transform": "X"}', "Transform is not implemented"),
        ('{"Resources": {"A": {}}}', r"Resources\.A\.Type: "),
        ('{"Resources": {"A": {"Type": "T", "CreationPolicy": {}}}}', "CreationPolicy is not implemented"),
        ('{"Resources": {"A": {"Type": "T", "DeletionPolicy": "Snapshot"}}}', "A.DeletionPolicy: "),
        ('{"Resources": [1]}', "Resources: "),
        ('{"Resources": {"A": {"Type": "T", "Properties": [1]}}}', "A.Properties: "),
        ('{"Resources": {"A": {"Type": "T", "DependsOn": 5}}}', "A.DependsOn: "),
        ('{"Resources": {"A": {"Type": "T", "DependsOn": [{}]}}}', "A.DependsOn.0: "),
        (ONE + '"Outputs": {"X": 5}}', "Outputs.X: "),
        (ONE + '"Parameters": {"X": "a"}}', "Parameters.X: "),
        (ONE + '"Parameters": {"X": {"Type": "String", "MinLength": 1}}}', "X.MinLength is not implemented"),
        ("Resources: &all {A: {Type: T}}\nOutputs: *all", "YAML aliases are not allowed"),
        ("Resources: {A: !Ref B}", "could not determine a constructor for the tag '!Ref'"),
        ("Resources: 0b_", "Template format error: invalid literal"),
        (f"Resources: {'[' * 5000}", "nested too deeply"),
        (f'{{"Resources": {"[" * 100_000}', "more than 100 levels"),
    ],
)
def test_invalid_templates_are_rejected(body, complaint):
    if len(body) > 1000:
        gc.collect()  # finalizers of other tests would fail at the recursion limit
    with pytest.raises(TemplateError, match=complaint):
        parse_template(body)


def test_all_template_errors_are_listed():
    with pytest.raises(TemplateError) as caught:
        parse_template('{"Resources": {"A": {}, "B": {"Type": "T", "Wrong": 1}}, "Extra": {}}')
    assert all(word in str(caught.value) for word in ("Extra", "A.Type", "B.Wrong"))


def resolved(declared, *, previous=None, **given):
    return resolve_parameters(
        declared={key: ParameterDeclaration.model_validate(body) for key, body in declared.items()},
        given={
            key: {"UsePreviousValue": True} if value is ... else {"ParameterValue": value}
            for key, value in given.items()
        },
        previous=previous or {},
        read_ssm=lambda name: f"value of {name}",
    )


def test_given_values_override_defaults():
    declared = {"A": {"Type": "String", "Default": "d"}, "B": {"Type": "Number", "Default": 4}}
    parameters = resolved(declared, A="given")
    assert {key: parameter.resolved for key, parameter in parameters.items()} == {"A": "given", "B": "4"}


def test_previous_values_are_kept_and_new_parameters_get_defaults():
    declared = {"A": {"Type": "String", "Default": "new"}, "B": {"Type": "String", "Default": "b"}}
    previous = {"A": StackParameter("A", "old", "old", no_echo=False, from_ssm=False)}
    parameters = resolved(declared, previous=previous, A=..., B=...)
    assert {key: parameter.resolved for key, parameter in parameters.items()} == {"A": "old", "B": "b"}


def test_lists_and_ssm():
    declared = {
        "List": {"Type": "CommaDelimitedList"},
        "Path": {"Type": "AWS::SSM::Parameter::Value<String>", "Default": "/x"},
    }
    parameters = resolved(declared, List="a, b")
    assert parameters["List"].resolved == ["a", "b"]
    assert parameters["Path"].resolved == "value of /x"
    assert parameters["Path"].described()["ResolvedValue"] == "value of /x"


def test_no_echo_hides_the_value():
    parameter = resolved({"A": {"Type": "String", "NoEcho": True}}, A="secret")["A"]
    assert parameter.described()["ParameterValue"] == "****"


@pytest.mark.parametrize(
    ("declaration", "good", "bad"),
    [
        ({"Type": "String", "AllowedValues": ["a", "b"]}, "a", "c"),
        ({"Type": "String", "AllowedPattern": "[a-z]+"}, "abc", "abc1"),
        ({"Type": "Number"}, "-1.5", ""),
        ({"Type": "Number"}, "1", "one"),
    ],
)
def test_constraints(declaration, good, bad):
    assert resolved({"A": declaration}, A=good)["A"].resolved == good
    with pytest.raises(TemplateError, match="Parameter A"):
        resolved({"A": declaration}, A=bad)


def test_invalid_parameters_are_named():
    with pytest.raises(TemplateError, match=r"\[X\] do not exist"):
        resolved({"A": {"Type": "String", "Default": ""}}, X="1")
    with pytest.raises(TemplateError, match=r"\[A\] must have values"):
        resolved({"A": {"Type": "String"}})
    with pytest.raises(TemplateError, match="AWS::EC2::Image::Id"):
        resolved({"A": {"Type": "AWS::EC2::Image::Id"}}, A="ami")
