"""The request for an instance of a template, new and again."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tritonstack.base.errors import UsageError
from tritonstack.files.environment.templates import Instance, Template, TemplateHead
from tritonstack.operate.deploy.instances import InstanceRequest, plan_instance

NOW = datetime(2030, 1, 1, tzinfo=UTC)
HEAD = TemplateHead(locks="dev", purpose="tests", longest="24h", parameters={"most": 2, "machine": "small"})
TEMPLATE = Template("preview", Path("preview.template.yaml"), HEAD, {}, {})
STANDING = Instance("preview", "pr-1", "ann", "2030-01-01T05:00:00Z", {"most": 3})


def asked(wish: InstanceRequest, standing: Instance | None = None) -> Instance:
    return plan_instance(TEMPLATE, wish, deployed=standing, actor="bob[bot]", now=NOW)


def test_new_instance_has_the_actor_as_owner_and_the_given_ttl():
    instance = asked(InstanceRequest("pr-1", ttl="4h", settings={"most": "5"}))
    assert instance == Instance("preview", "pr-1", "bob-bot-", "2030-01-01T04:00:00Z", {"most": 5})


def test_redeploy_keeps_owner_expiry_and_parameters():
    assert asked(InstanceRequest("pr-1"), STANDING) == STANDING


def test_options_given_again_change_the_instance():
    wish = InstanceRequest("pr-1", ttl="2h", owner="eve", settings={"machine": "large"})
    assert asked(wish, STANDING) == Instance(
        "preview", "pr-1", "eve", "2030-01-01T02:00:00Z", {"machine": "large", "most": 3}
    )


def test_a_parameter_set_to_its_default_follows_the_template_again():
    assert asked(InstanceRequest("pr-1", settings={"most": "2"}), STANDING).parameters == {}


@pytest.mark.parametrize(
    ("wish", "standing", "message"),
    [
        (InstanceRequest("pr-1", ttl="25h"), None, "--ttl 25h exceeds the maximum for instances of preview"),
        (InstanceRequest("pr-1", ttl="soon"), None, "--ttl: invalid duration 'soon'"),
        (
            InstanceRequest("pr-1"),
            replace(STANDING, expires="2030-01-01T00:00:00Z"),
            "expired at 2030-01-01T00:00:00Z",
        ),
        (
            InstanceRequest("pr-1", ttl="1h"),
            replace(STANDING, template="test"),
            "'pr-1' is already an instance of test",
        ),
    ],
)
def test_invalid_instance_request_is_rejected_with_a_remedy(wish, standing, message):
    with pytest.raises(UsageError) as caught:
        asked(wish, standing)
    assert message in caught.value.message
    assert caught.value.remedy


def test_expired_instance_can_be_extended():
    expired = replace(STANDING, expires="2029-01-01T00:00:00Z")
    assert asked(InstanceRequest("pr-1", ttl="1h"), expired).expires == "2030-01-01T01:00:00Z"
