"""What an endpoint runs: image, data, environment, and network of its models."""

import pytest

from tests.stacks.templates import only

MODEL = "AWS::SageMaker::Model"


def test_each_variant_has_its_own_model_and_all_have_one_role(every):
    """A role of its own would be deleted with a variant that may still serve."""
    compared = every.endpoint("compared")
    urls = {
        m["Properties"]["PrimaryContainer"]["ModelDataUrl"].split("/models/")[1].split("/")[0]: m
        for m in compared.find_resources(MODEL).values()
    }
    assert set(urls) == {"encoder", "ranker"}
    role, _ = only(compared, "AWS::IAM::Role")
    assert {m["Properties"]["ExecutionRoleArn"]["Fn::GetAtt"][0] for m in urls.values()} == {role}


@pytest.mark.parametrize("kind", [MODEL, "AWS::SageMaker::EndpointConfig"])
def test_what_an_endpoint_may_still_serve_is_retained(every, kind):
    """Whether it is replaced, removed, or created by an update that fails."""
    items = [r for name in ("single", "compared", "component") for r in resources(every, name, kind)]
    assert len(items) >= 3
    assert {(r["DeletionPolicy"], r["UpdateReplacePolicy"]) for r in items} == {("Retain", "Retain")}


def resources(every, name, kind):
    return every.endpoint(name).find_resources(kind).values()
