"""Parse composite alarm rules, and evaluate them on the states of other alarms.

or := and {OR and}      and := not {AND not}      not := NOT not | atom
atom := (or) | TRUE | FALSE | ALARM(name) | OK(name) | INSUFFICIENT_DATA(name)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tritonstack_local.cloudwatch.tokens import TokenCursor, matches

_TOKEN = re.compile(
    r"\s*(?:(?P<test>ALARM|OK|INSUFFICIENT_DATA)\s*\(\s*(?:\"(?P<quoted>[^\"]+)\"|'(?P<single>[^']+)'|(?P<bare>[^()\"']+?))\s*\)"
    r"|(?P<word>AND|OR|NOT|TRUE|FALSE)\b|(?P<sign>[()]))"
)
States = Callable[[str], str | None]
"""Returns the state of an alarm by name; None for an unknown alarm."""


class RuleError(Exception):
    """An invalid rule; the message gives the reason."""


@dataclass(frozen=True)
class Rule:
    """One node of a rule: AND, OR, NOT, TRUE, FALSE, or a state that `alarm` must be in."""

    operator: str
    operands: tuple[Rule, ...] = ()
    alarm: str = ""


def parse_rule(text: str) -> Rule:
    """Parse a rule, or raise RuleError."""
    parser = _RuleParser(_tokens(text), error=RuleError)
    rule = parser.rule()
    if parser.ahead is not None:
        raise _unexpected(parser.ahead)
    return rule


def holds(rule: Rule, states: States) -> bool:
    """Return whether a rule holds; an alarm that does not exist is in no state."""
    operands = [holds(operand, states) for operand in rule.operands]
    match rule.operator:
        case "AND":
            return all(operands)
        case "OR":
            return any(operands)
        case "NOT":
            return not operands[0]
        case "TRUE" | "FALSE":
            return rule.operator == "TRUE"
        case state:
            return states(rule.alarm) == state


def alarms_in(rule: Rule) -> set[str]:
    """Return the names of all alarms that a rule mentions."""
    own = {rule.alarm} if rule.alarm else set()
    return own.union(*map(alarms_in, rule.operands))


def check_rule(name: str, rules: Mapping[str, Rule], *, exists: Callable[[str], bool]) -> None:
    """Raise RuleError if an alarm's rule mentions alarms that do not exist, or leads back to itself."""
    missing = sorted(alarm for alarm in alarms_in(rules[name]) if alarm != name and not exists(alarm))
    if missing:
        raise RuleError(f"alarms [{', '.join(missing)}] in the alarm rule do not exist")
    reached, waiting = set[str](), alarms_in(rules[name])
    while waiting:
        alarm = waiting.pop()
        if alarm == name:
            raise RuleError("creating or modifying it would create a cycle")
        if alarm in rules and alarm not in reached:
            reached.add(alarm)
            waiting |= alarms_in(rules[alarm])


_Token = str | Rule


def _tokens(text: str) -> Iterator[_Token]:
    for match in matches(_TOKEN, text, error=RuleError):
        if match["test"]:
            yield Rule(match["test"], alarm=_name(match["quoted"] or match["single"] or match["bare"]))
        else:
            yield match["word"] or match["sign"]


def _name(text: str) -> str:
    """Return the name of an alarm given by name or by ARN."""
    return text.split(":alarm:", 1)[1] if text.startswith("arn:") and ":alarm:" in text else text


def _unexpected(token: _Token) -> RuleError:
    return RuleError(f"unexpected '{token if isinstance(token, str) else token.operator}'")


class _RuleParser(TokenCursor[_Token]):
    def rule(self) -> Rule:
        return self.chain(("OR",), self._and, Rule)

    def _and(self) -> Rule:
        return self.chain(("AND",), self._not, Rule)

    def _not(self) -> Rule:
        token = self.take()
        if isinstance(token, Rule):
            return token
        if token == "NOT":  # noqa: S105 - a word of the grammar
            return Rule("NOT", (self._not(),))
        if token in {"TRUE", "FALSE"}:
            return Rule(token)
        if token != "(":  # noqa: S105
            raise _unexpected(token)
        rule = self.rule()
        if self.take() != ")":
            raise RuleError("missing ')'")
        return rule
