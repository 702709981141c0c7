"""Which environments have expired, and which ones a clean-up must not touch."""

from datetime import UTC, datetime

import pytest

from tests.sample_templates import sample_templates
from tritonstack.base.errors import TritonstackError
from tritonstack.operate.destroy import environment as destroy
from tritonstack.operate.destroy import reap as reaping
from tritonstack.operate.destroy.deletion import Retained
from tritonstack.operate.destroy.reap import destroy_if_expired, judge
from tritonstack.operate.shared.aws import Cloud
from tritonstack.operate.shared.stacks import OUR_DESCRIPTION, StackState

NOW = datetime(2030, 1, 1, tzinfo=UTC)
PAST, FUTURE = "2029-12-31T23:59:59Z", "2030-01-01T00:00:01Z"


def stack(
    name: str, expires: str | None = PAST, *, protected: bool = False, description: str = "tritonstack: x"
) -> StackState:
    tags = {"owner": "ann"} | ({"expires": expires} if expires else {})
    return StackState(name, "CREATE_COMPLETE", "", protected, tags, description)


def verdicts(*stacks: StackState) -> dict[str, str]:
    return {item.base: item.verdict for item in judge(stacks, NOW)}


def test_expired_environments_are_listed_with_their_owner():
    (environment,) = judge([stack("t-pr-1-foundation"), stack("t-pr-1-endpoint-search")], NOW)
    assert (environment.base, environment.owner, environment.expires, environment.verdict) == (
        "t-pr-1",
        "ann",
        PAST,
        "expired",
    )
    assert environment.stacks == ("t-pr-1-foundation", "t-pr-1-endpoint-search")


@pytest.mark.parametrize(
    ("stacks", "expected"),
    [
        ([stack("t-a-foundation", None)], {}),
        ([stack("t-a-foundation", FUTURE)], {"t-a": "active"}),
        ([stack("t-a-foundation", "tomorrow")], {"t-a": "unreadable"}),
        ([stack("t-a-foundation", protected=True)], {"t-a": "protected"}),
        ([stack("t-a-foundation"), stack("t-a-endpoint-x", protected=True)], {"t-a": "protected"}),
        # A deploy that gave it more time has reached only one of them.
        ([stack("t-a-foundation", FUTURE), stack("t-a-endpoint-x", PAST)], {"t-a": "active"}),
        ([stack("t-a-foundation", None), stack("t-a-endpoint-x", PAST)], {"t-a": "expired"}),
        # Somebody else's stack that is called like one of ours.
        ([stack("t-a-network", description="Our network")], {}),
        ([stack("t-a")], {}),
        (
            [stack("t-a-foundation"), stack("t-a-two-foundation", FUTURE)],
            {"t-a": "expired", "t-a-two": "active"},
        ),
    ],
)
def test_environments_without_expiry_or_with_protection_are_kept(stacks, expected):
    assert verdicts(*stacks) == expected


def test_every_stack_names_its_project():
    """A clean-up recognizes a stack of this project only by its description."""
    described = [template["Description"] for template in sample_templates().values()]
    assert all(description.startswith(f"{OUR_DESCRIPTION} ") for description in described)


@pytest.mark.parametrize(("expires", "taken"), [(PAST, True), (FUTURE, False)])
def test_expiry_is_checked_again_before_destruction(monkeypatch, expires, taken):
    destroyed: list[str] = []
    monkeypatch.setattr(reaping, "list_stacks", lambda *_, **__: [stack("t-a-foundation", expires)])
    monkeypatch.setattr(reaping, "orphaned", lambda *_: [])
    monkeypatch.setattr(reaping, "destroy_environment", lambda _, base, **__: destroyed.append(base))
    assert destroy_if_expired(Cloud("1", "x", {}), "t-a", now=NOW, on_update=destroyed.append) is taken
    assert destroyed == (["t-a"] if taken else [])


def test_an_environment_extended_during_a_clean_up_keeps_its_foundation(monkeypatch):
    """A deploy starts with the foundation, which a clean-up deletes last."""
    expiry, deleted = [PAST], list[str]()
    names = ("t-a-endpoint-x", "t-a-network", "t-a-foundation")

    def there(*_: object, **__: object) -> list[StackState]:
        return [stack(name, expiry[0]) for name in names if name not in deleted]

    def delete(_: Cloud, layer: list[str], **__: object) -> list[Retained]:
        deleted.extend(layer)
        expiry[0] = FUTURE
        return []

    for module in (reaping, destroy):
        monkeypatch.setattr(module, "list_stacks", there)
    monkeypatch.setattr(reaping, "orphaned", lambda *_: [])
    monkeypatch.setattr(destroy, "delete_stacks", delete)
    for ends_builds in ("stop_builds", "delete_ended_jobs"):
        monkeypatch.setattr(destroy, ends_builds, lambda *_, **__: [])
    with pytest.raises(TritonstackError, match="during its destruction"):
        destroy_if_expired(Cloud("1", "x", {}), "t-a", now=NOW, on_update=deleted.append)
    assert deleted == ["t-a-endpoint-x"]
