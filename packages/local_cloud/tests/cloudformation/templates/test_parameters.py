"""Parameters: defaults, previous values, constraints, SSM."""

import pytest

from tritonstack_local.cloudformation.errors import TemplateError
from tritonstack_local.cloudformation.templates.parameters import StackParameter, resolve_parameters


def resolved(declared, *, previous=None, **given):
    return resolve_parameters(
        declared=declared,
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
    with pytest.raises(TemplateError, match="MinLength"):
        resolved({"A": {"Type": "String", "MinLength": 1}}, A="1")
    with pytest.raises(TemplateError, match="AWS::EC2::Image::Id"):
        resolved({"A": {"Type": "AWS::EC2::Image::Id"}}, A="ami")
