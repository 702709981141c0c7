"""The rules of composite alarms."""

import pytest

from tritonstack_local.cloudwatch.alarms.rules import RuleError, alarms_in, check_rule, holds, parse_rule

STATES = {"up": "ALARM", "down": "OK", "new": "INSUFFICIENT_DATA", "two words": "ALARM"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ALARM(up)", True),
        ("ALARM(down)", False),
        ("OK(down) AND INSUFFICIENT_DATA(new)", True),
        ("NOT ALARM(up)", False),
        ("NOT (ALARM(up) AND ALARM(down))", True),
        ("FALSE AND TRUE OR TRUE", True),
        ("FALSE AND (TRUE OR TRUE)", False),
        ('ALARM("two words") AND NOT OK(up)', True),
        ("ALARM('two words')", True),
        ('(ALARM("arn:aws:cloudwatch:eu-west-1:111122223333:alarm:up") OR ALARM(down))', True),
        ("OK(gone) OR ALARM(gone) OR INSUFFICIENT_DATA(gone)", False),
    ],
)
def test_rules(text, expected):
    assert holds(parse_rule(text), STATES.get) is expected


@pytest.mark.parametrize(
    "text", ["", "ALARM(", "ALARM()", "RINGS(up)", "ALARM(up) OK(down)", "NOT", "(TRUE", "AND TRUE"]
)
def test_invalid_rules_are_rejected(text):
    with pytest.raises(RuleError):
        parse_rule(text)


def test_the_alarms_of_a_rule():
    assert alarms_in(parse_rule("ALARM(a) AND (OK(b) OR NOT INSUFFICIENT_DATA(c)) AND TRUE")) == {
        "a",
        "b",
        "c",
    }


def test_cycles_and_missing_alarms_are_rejected():
    rules = {
        name: parse_rule(text) for name, text in {"a": "ALARM(b)", "b": "ALARM(c)", "c": "OK(a)"}.items()
    }
    with pytest.raises(RuleError, match="cycle"):
        check_rule("a", rules, exists=rules.__contains__)
    with pytest.raises(RuleError, match=r"\[x, y\]"):
        check_rule("d", rules | {"d": parse_rule("ALARM(y) OR OK(x)")}, exists=rules.__contains__)
    check_rule("b", {"b": parse_rule("ALARM(c)"), "c": parse_rule("TRUE")}, exists={"c"}.__contains__)
