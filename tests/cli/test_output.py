"""What Output prints: if Ctrl-C arrives meanwhile, and numbers that JSON lacks."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from tritonstack.cli.output import Output


class InterruptedStream(io.StringIO):
    """Raises KeyboardInterrupt once, right after a flush has delivered the text."""

    interrupted = False

    def flush(self) -> None:
        super().flush()
        if self.getvalue() and not self.interrupted:
            self.interrupted = True
            raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("show", "first", "second"),
    [
        (lambda output, text: output.log_lines([("now", text)]), "now one\n", "now two\n"),
        (lambda output, text: output.json_lines([{"line": text}]), '{"line": "one"}\n', '{"line": "two"}\n'),
    ],
)
def test_an_interrupted_line_is_not_printed_again(show, first, second):
    stream = InterruptedStream()
    output = Output(results=Console(file=stream, soft_wrap=True))
    with pytest.raises(KeyboardInterrupt):
        show(output, "one")
    show(output, "two")
    assert stream.getvalue() == first + second


def test_json_has_no_numbers_that_parsers_reject():
    stream = io.StringIO()
    data = {"y": [[1.5, math.nan], [math.inf, -math.inf]], "x": (1, "NaN")}
    Output(as_json=True, results=Console(file=stream)).result(data, text="")
    assert json.loads(stream.getvalue(), parse_constant=pytest.fail) == {
        "y": [[1.5, None], [None, None]],
        "x": [1, "NaN"],
    }


def test_a_value_of_a_foreign_type_does_not_fail_the_report(capsys):
    @dataclass(frozen=True)
    class Result:
        count: int
        facts: Mapping[str, Any]
        items: tuple[Any, ...]

    facts = MappingProxyType({"p50": np.float32(1.5)})
    Output(as_json=True).result(Result(np.int64(3), facts, (range(2),)), text="")  # type: ignore[arg-type]
    assert json.loads(capsys.readouterr().out) == {"count": 3, "facts": {"p50": 1.5}, "items": [[0, 1]]}
