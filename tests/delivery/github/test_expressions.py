"""The expression evaluator of these tests supports little, and rejects the rest."""

import pytest

from tests.delivery.github.expressions import Payload, Scope, UnknownExpressionError, evaluate, holds

SCOPE = Scope(
    {
        "github": {"event_name": "push", "event": Payload(action="closed")},
        "needs": {
            "delivery": {
                "result": "success",
                "outputs": {"affected": '["dev"]', "stages": '{"dev": {"roles": {"plan": "arn"}}}'},
            },
            "dev": {"result": "cancelled", "outputs": {}},
        },
        "matrix": {"environment": "dev"},
    }
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("github.event_name == 'PUSH'", True),
        ("github.event_name != 'push'", False),
        ("github.event.action == 'closed' && 'a' || 'b'", "a"),
        ("github.event.before", None),
        ("contains(fromJSON(needs.delivery.outputs.affected), 'prod')", False),
        ("fromJSON(needs.delivery.outputs.stages)[matrix.environment].roles.plan", "arn"),
        ("!(true && false)", True),
        ("'it''s'", "it's"),
        ("contains(needs.*.result, 'cancelled')", True),
        ("needs.*.result", ["success", "cancelled"]),
        ("cancelled()", False),
        ("false && needs.delivery.outputs.satges", False),
        ("true || fromJSON('')", True),
        ("true && (false && needs.delivery.outputs.satges || 'b')", "b"),
    ],
)
def test_known_expressions_are_evaluated(text, value):
    assert evaluate(text, SCOPE) == value


@pytest.mark.parametrize(
    "text",
    [
        "needs.delivery.outputs.satges",
        "needs.*.outputs.affected",
        "true && needs.delivery.outputs.satges",
        "secrets.KEY",
        "startsWith('a', 'a')",
        "1 < 2",
        "github.event_name ==",
        "a b",
    ],
)
def test_unknown_expressions_are_rejected(text):
    with pytest.raises(UnknownExpressionError):
        evaluate(text, SCOPE)


@pytest.mark.parametrize(
    ("condition", "runs_after_failure"),
    [
        (None, False),
        ("true", False),
        ("${{ !cancelled() && true }}", True),
        ("always()", True),
        ("failure()", True),
    ],
)
def test_jobs_without_a_status_function_run_only_after_success(condition, runs_after_failure):
    assert holds(condition, Scope({}, succeeded=False)) is runs_after_failure
