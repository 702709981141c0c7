"""Results of checks, for messages and `--json`.

A failure is a difference or a failed request; a note is information.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tritonstack.base.results import public
from tritonstack.operate.synth.assembly import as_stored
from tritonstack.operate.verify.expectations import Unknown

# Services normalize what they store: numbers as text, lists in another order, added defaults. Those are not
# differences. Values that the template does not mention are ignored, except in named lists and the members
# below, where extra values count.


_KEYS = (
    "Name",
    "VariantName",
    "AlarmName",
    "PolicyName",
    "ScheduledActionName",
    "Id",
    "CaptureMode",
    "ContainerHostname",
)
"""The identifying key of list items, whose order is ignored."""
_EXACT = frozenset({"Environment"})
"""Members that must match exactly."""
_NEVER_UNASKED = frozenset(
    {
        "AsyncInferenceConfig",
        "DataCaptureConfig",
        "ExplainerConfig",
        "ManagedInstanceScaling",
        "ServerlessConfig",
        "ShadowProductionVariants",
        "VpcConfig",
    }
)
"""Members that no service adds itself."""
_NAMES = frozenset({"ModelName", "EndpointConfigName", "EndpointName"})
"""Names that SageMaker converts to lower case in ARNs."""
_UNCOUNTED = frozenset({"Tags", "DeploymentConfig"})
"""Tags do not affect serving; the last update's strategy has its own check."""
_LONGEST_VALUE = 120


class Absent:
    """Marks a missing value."""

    def __repr__(self) -> str:
        return "nothing"


ABSENT: Final = Absent()


@dataclass(frozen=True)
class Difference:
    """A value that differs from the requested one."""

    path: str
    expected: Any
    found: Any

    @property
    def description(self) -> str:
        """Return the difference in one line."""
        if isinstance(self.expected, Absent):
            value = "" if isinstance(self.found, Mapping) else f": {shown(self.found)}"
            return f"{self.path} exists but is not expected{value}"
        if isinstance(self.found, Absent):
            return f"{self.path} is missing, expected {shown(self.expected)}"
        return f"{self.path} is {shown(self.found)}, expected {shown(self.expected)}"


@dataclass
class PropertyComparison:
    """The results of a comparison."""

    differences: list[Difference] = field(default_factory=list)
    compared: int = 0
    skipped: int = 0
    """Values that only CloudFormation knows."""

    def compare(self, expected: Any, actual: Any, path: str) -> None:
        """Compare a value recursively."""
        if isinstance(expected, Unknown):
            self.skipped += 1
        elif isinstance(expected, Mapping) and isinstance(actual, Mapping):
            self._mappings(expected, actual, path)
        elif isinstance(expected, list) and isinstance(actual, Sequence) and not isinstance(actual, str):
            self._lists(expected, actual, path)
        else:
            self.compared += 1
            if not _same(expected, actual, name=_last(path)):
                self.differences.append(Difference(path, expected, actual))

    def _mappings(self, expected: Mapping[str, Any], actual: Mapping[str, Any], path: str) -> None:
        also = actual if _last(path) in _EXACT else _NEVER_UNASKED & actual.keys()
        for name in sorted({*expected, *also} - _UNCOUNTED):
            self.compare(expected.get(name, ABSENT), actual.get(name, ABSENT), _below(path, name))

    def _lists(self, expected: list[Any], actual: Sequence[Any], path: str) -> None:
        key = _key_of([*expected, *actual])
        if key is not None:
            expected_items, found_items = (
                {item[key]: item for item in items} for items in (expected, actual)
            )
            for name in dict.fromkeys((*expected_items, *found_items)):
                self.compare(
                    expected_items.get(name, ABSENT), found_items.get(name, ABSENT), f"{path}[{name}]"
                )
        elif any(isinstance(item, Mapping) for item in (*expected, *actual)):
            for index in range(max(len(expected), len(actual))):
                expected_item, found_item = (_at(items, index) for items in (expected, actual))
                self.compare(expected_item, found_item, f"{path}[{index + 1}]")
        elif any(isinstance(item, Unknown) for item in expected):
            self.skipped += 1
        else:
            self.compared += 1
            if sorted(map(str, expected)) != sorted(map(str, actual)):
                self.differences.append(Difference(path, expected, list(actual)))


def shown(value: Any) -> str:
    """Shorten a value to one line."""
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"


def _same(expected: Any, actual: Any, *, name: str) -> bool:
    if isinstance(actual, Absent) or isinstance(expected, Absent):
        return not any(side for side in (expected, actual) if not isinstance(side, Absent))
    if name in _NAMES:
        return str(expected).lower() == str(actual).lower()
    if isinstance(expected, str) and isinstance(actual, str):
        # The strings 1.0 and 1 differ. The expected value may be one that CloudFormation stored.
        return expected in (actual, as_stored(actual))
    if isinstance(expected, bool) or isinstance(actual, bool):
        return str(expected).lower() == str(actual).lower()
    try:
        return float(expected) == float(actual)
    except (TypeError, ValueError):
        return bool(expected == actual)


def _at(items: Sequence[Any], index: int) -> Any:
    return items[index] if index < len(items) else ABSENT


def _key_of(items: Sequence[Any]) -> str | None:
    if not items or not all(isinstance(item, Mapping) for item in items):
        return None
    return next((key for key in _KEYS if all(isinstance(item.get(key), str) for item in items)), None)


def _last(path: str) -> str:
    return path.rpartition(".")[2].rpartition(" ")[2]


def _below(path: str, name: str) -> str:
    return path + name if not path or path.endswith(" ") else f"{path}.{name}"


_DIGEST = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{52}\b")
_VARIANT_PATH = re.compile(r"^(?:Shadow)?ProductionVariants\[([^\]]+)\]\.")


@dataclass(frozen=True)
class Check:
    """The check of one aspect of an endpoint or environment."""

    aspect: str
    failures: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    detail: str = ""
    """A summary."""
    compared: int = 0
    skipped: int = 0
    """Values that only CloudFormation knows."""

    @classmethod
    def of(
        cls,
        aspect: str,
        comparison: PropertyComparison,
        failures: Iterable[str] = (),
        notes: Iterable[str] = (),
        *,
        detail: str,
        others: int = 0,
    ) -> Check:
        """Return the check of compared values and of `others`, with the failures of those."""
        return cls(
            aspect,
            (*failures, *describe_differences(comparison.differences)),
            tuple(notes),
            detail,
            comparison.compared + others,
            comparison.skipped,
        )

    @public
    def passed(self) -> bool:
        """Return whether there are no failures."""
        return not self.failures


def describe_differences(differences: Iterable[Difference]) -> tuple[str, ...]:
    """Return differences with short digests and variant names."""
    return tuple(
        shortened(_VARIANT_PATH.sub(r"\1: ", difference.description)).replace("PrimaryContainer.", "")
        for difference in differences
    )


def shortened(text: str) -> str:
    """Shorten the digests in a text."""
    return _DIGEST.sub(r"\1", text)


def range_text(least: float, most: float) -> str:
    """Return a range of counts as text."""
    return f"{least:g}" if least == most else f"{least:g} to {most:g}"
