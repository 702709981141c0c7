"""Parse composite alarm rules, and evaluate them on the states of other alarms.

or := and {OR and}      and := not {AND not}      not := NOT not | atom
atom := (or) | TRUE | FALSE | ALARM(name) | OK(name) | INSUFFICIENT_DATA(name)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tritonstack_local.cloudwatch.tokens import Cursor, matches

_TOKEN = re.compile(
    r"\s*(?:(?P<test>ALARM|OK|INSUFFICIENT_DATA)\s*\(\s*(?:\"(?P<quoted>[^\"]+)\"|'(?P<single>[^']+)'|(?P<bare>[^()\"']+?))\s*\)"
    r"|(?P<word>AND|OR|NOT|TRUE|FALSE)\b|(?P<sign>[()]))"
)
States = Callable[[str], str | None]
"""The state of an alarm by its name, None where there is no such alarm."""


class RuleError(Exception):
    """A rule that cannot be followed; the message says why."""


@dataclass(frozen=True)
class Test:
    """Whether an alarm is in a state."""

    state: str
    alarm: str


@dataclass(frozen=True)
class Constant:
    """TRUE or FALSE."""

    holds: bool


@dataclass(frozen=True)
class Not:
    """The opposite."""

    rule: Rule


@dataclass(frozen=True)
class Both:
    """AND."""

    left: Rule
    right: Rule


@dataclass(frozen=True)
class Either:
    """OR."""

    left: Rule
    right: Rule


Rule = Test | Constant | Not | Both | Either


def parse_rule(text: str) -> Rule:
    """Parse, or raise RuleError."""
    parser = _Parser(_tokens(text), fault=RuleError)
    rule = parser.either()
    if parser.ahead is not None:
        raise RuleError(f"{_shown(parser.ahead)} is not expected there")
    return rule


def holds(rule: Rule, states: States) -> bool:
    """Return whether a rule holds; an alarm that does not exist is in no state."""
    match rule:
        case Test(state, alarm):
            return states(alarm) == state
        case Constant(value):
            return value
        case Not(inner):
            return not holds(inner, states)
        case Both(left, right):
            return holds(left, states) and holds(right, states)
        case Either(left, right):
            return holds(left, states) or holds(right, states)


def alarms_in(rule: Rule) -> set[str]:
    """Return the names of all alarms that a rule mentions."""
    match rule:
        case Test(_, alarm):
            return {alarm}
        case Constant():
            return set()
        case Not(inner):
            return alarms_in(inner)
        case Both(left, right) | Either(left, right):
            return alarms_in(left) | alarms_in(right)


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


_Token = str | Test


def _tokens(text: str) -> Iterator[_Token]:
    for match in matches(_TOKEN, text, fault=RuleError):
        if match["test"]:
            yield Test(match["test"], _name(match["quoted"] or match["single"] or match["bare"]))
        else:
            yield match["word"] or match["sign"]


def _name(text: str) -> str:
    """An alarm may be named by its ARN."""
    return text.split(":alarm:", 1)[1] if text.startswith("arn:") and ":alarm:" in text else text


def _shown(token: _Token) -> str:
    return repr(token) if isinstance(token, str) else f"'{token.state}({token.alarm})'"


class _Parser(Cursor[_Token]):
    def either(self) -> Rule:
        rule = self._both()
        while self.ahead == "OR":
            self.take()
            rule = Either(rule, self._both())
        return rule

    def _both(self) -> Rule:
        rule = self._not()
        while self.ahead == "AND":
            self.take()
            rule = Both(rule, self._not())
        return rule

    def _not(self) -> Rule:
        piece = self.take()
        if piece == "NOT":
            return Not(self._not())
        if isinstance(piece, Test):
            return piece
        if piece in {"TRUE", "FALSE"}:
            return Constant(piece == "TRUE")
        if piece != "(":
            raise RuleError(f"{_shown(piece)} is not expected there")
        rule = self.either()
        if self.take() != ")":
            raise RuleError("a ')' is missing")
        return rule
