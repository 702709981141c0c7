"""Templates in JSON and YAML, and their errors."""

import gc

import pytest

from tritonstack_local.cloudformation.errors import TemplateError
from tritonstack_local.cloudformation.templates.template import parse_template


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


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ("{", "Template format error"),
        ("- a", "unsupported structure"),
        ("{}", "At least one Resources member"),
        ('{"Resources": {"A": {"Type": "T"}}, "Transform": "X"}', r"Invalid template property"),
        ('{"Resources": {"A": {}}}', "Resource A has no Type"),
        ('{"Resources": {"A": {"Type": "T", "CreationPolicy": {}}}}', "CreationPolicy is not implemented"),
        ('{"Resources": {"A": {"Type": "T", "DeletionPolicy": "Snapshot"}}}', "Snapshot is not one of"),
        ('{"Resources": [1]}', "Resources must be an object"),
        ('{"Resources": {"A": {"Type": "T", "Properties": [1]}}}', "A: Properties must be an object"),
        ('{"Resources": {"A": {"Type": "T", "DependsOn": 5}}}', "A: DependsOn must be a string or"),
        ('{"Resources": {"A": {"Type": "T", "DependsOn": [{}]}}}', "A: DependsOn must be a string or"),
        ('{"Resources": {"A": {"Type": "T"}}, "Outputs": {"X": 5}}', "Outputs.X must be an"),
        ('{"Resources": {"A": {"Type": "T"}}, "Parameters": {"X": "a"}}', "Parameters.X must be an"),
        ("Resources: &all {A: {Type: T}}\nOutputs: *all", "YAML aliases are not allowed in CloudFormation"),
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
    assert all(word in str(caught.value) for word in ("Extra", "A has no Type", "Wrong"))
