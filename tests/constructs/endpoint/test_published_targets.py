"""The model names of a multi-model endpoint as SSM parameters: their limits, and small changes."""

import json

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Template

from tritonstack.constructs.endpoint.published_targets import PAGE_BYTES, PublishedTargets, target_pages


def models(count: int) -> dict[str, str]:
    names = [f"model-{number:0>34}" for number in range(count)]
    return {name: f"{name}/{'ab' * 32}/model.tar.gz" for name in names}


@pytest.mark.parametrize("count", [1, 2, 30, 300, 1000])
def test_each_parameter_is_within_the_limit_and_no_name_is_lost(count):
    pages = target_pages(models(count))
    assert max(map(len, pages)) <= PAGE_BYTES
    merged: dict[str, str] = {}
    for page in pages:
        entries = json.loads(page)
        assert not merged.keys() & entries.keys()
        merged |= entries
    assert merged == models(count)
    assert len(pages) <= 4 * count * 150 / PAGE_BYTES + 1


def test_another_model_changes_one_parameter():
    before, after = target_pages(models(300)), target_pages(models(301))
    assert sum(old != new for old, new in zip(before, after, strict=True)) == 1


def test_later_parameters_are_written_first():
    stack = cdk.Stack(cdk.App(), "s")
    PublishedTargets(stack, "Targets", path="/a-b/targets/c", targets=models(60))
    parameters = Template.from_stack(stack).find_resources("AWS::SSM::Parameter")
    by_name = {item["Properties"]["Name"]: (key, item) for key, item in parameters.items()}
    assert sorted(by_name) == [f"/a-b/targets/c/{number}" for number in range(4)]
    for number in range(3):
        later, _ = by_name[f"/a-b/targets/c/{number + 1}"]
        assert by_name[f"/a-b/targets/c/{number}"][1]["DependsOn"] == [later]
