"""Send texts to an endpoint from a script."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.projects import edit
from tritonstack.base.errors import UsageError
from tritonstack.base.paths import Project
from tritonstack.workflows import Session, invoke
from tritonstack.workflows.environments import invoke as module


class Client:
    """Answers each text with its length."""

    def infer(self, inputs: dict[str, Any]) -> dict[str, Any]:
        return {"length": np.array([[len(row[0])] for row in inputs["TEXT"]], np.float32)}


@pytest.fixture
def session(project: Project, account: str, monkeypatch: pytest.MonkeyPatch) -> Session:
    edit(project.environment_file("dev"), "1" * 12, account)
    monkeypatch.setattr(module.InvocationTarget, "client", lambda *_: Client())
    return Session(project)


def test_outputs_have_a_row_per_text(session: Session) -> None:
    answer = invoke(session, "dev", "search", ["a", "four"])
    assert answer.inputs == ("a", "four")
    assert answer.outputs["length"].tolist() == [[1.0], [4.0]]
    assert answer.to_json() == {"inputs": ["a", "four"], "outputs": {"length": [[1.0], [4.0]]}}


def test_the_test_inputs_are_sent_by_default(session: Session) -> None:
    spec = session.workspace("dev").models["minilm"].record
    answer = invoke(session, "dev", "search")
    assert answer.inputs == spec.test_texts
    assert len(answer.outputs["length"]) == len(spec.test_texts) > 0


def test_an_unknown_endpoint_is_named(session: Session) -> None:
    with pytest.raises(UsageError, match="environment 'dev' has no endpoint 'serch'"):
        invoke(session, "dev", "serch")
