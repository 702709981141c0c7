"""How `tritonstack invoke` chooses among the models and variants of an endpoint."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.projects import MODEL, edit
from tritonstack.base.errors import UsageError
from tritonstack.base.paths import Project
from tritonstack.project.loading import load_workspace
from tritonstack.project.workspace import Workspace
from tritonstack.records.lock_writing import write_lock
from tritonstack.records.locks import Lock, LockedArtifact
from tritonstack.workflows.invocation.invocation_targets import find_target

DIGEST = "ab" * 32


def project_with(project: Project, endpoint: str) -> Workspace:
    """A project with these endpoint settings and a second model; both are built."""
    other = project.model_file("other")
    other.parent.mkdir(exist_ok=True)
    other.write_text(MODEL.replace("name: minilm", "name: other"))
    edit(project.environment_file("dev"), "    kind: ensemble\n    model: minilm\n", endpoint)
    workspace = load_workspace(project, "dev")
    models = {
        name: {"cpu": LockedArtifact(digest=DIGEST, spec_hash=spec_hash, archive_bytes=1, unpacked_bytes=1)}
        for name, spec_hash in workspace.hashes.items()
    }
    write_lock(project.lock_file("dev"), Lock(models=models))
    return load_workspace(project, "dev")


MULTI = "    kind: multi-model\n    models: [minilm, other]\n"
COMPARED = (
    "    kind: ensemble\n    model: minilm\n    challenger: {model: other}\n"
    "    scaling: {min_instances: 2, max_instances: 4}\n"
)


class RequestSentError(Exception):
    """Ends a request after it was recorded."""


class Recorder:
    """A runtime that records the request, and sends nothing."""

    def invoke_endpoint(self, **request: Any) -> dict[str, Any]:
        self.request = request
        raise RequestSentError


def addressed(workspace: Workspace, **selection: Any) -> dict[str, str]:
    """Return the parameters of InvokeEndpoint other than the body."""
    runtime = Recorder()
    with pytest.raises(RequestSentError):
        find_target(workspace, "search", **selection).client(runtime).infer({"TEXT": np.zeros(1)})
    return {name: value for name, value in runtime.request.items() if name not in ("Body", "ContentType")}


def test_single_model_endpoint_needs_no_target_model(project):
    workspace = load_workspace(project, "dev")
    assert addressed(workspace) == {"EndpointName": "tritonstack-dev-search"}
    assert addressed(workspace, model="minilm", variant="main") == {
        "EndpointName": "tritonstack-dev-search",
        "TargetVariant": "main",
    }


def test_a_model_of_several_is_found_by_the_lock(project):
    workspace = project_with(project, MULTI)
    assert addressed(workspace, model="other") == {
        "EndpointName": "tritonstack-dev-search",
        "TargetModel": f"other/{DIGEST}/model.tar.gz",
    }
    assert find_target(workspace, "search", model="other").model.name == "other"


@pytest.mark.parametrize(
    ("endpoint", "selection", "message", "remedy"),
    [
        (MULTI, {}, "the endpoint 'search' serves 2 models", "--model minilm"),
        (MULTI, {"model": "othr"}, "the endpoint 'search' serves no model 'othr'", "did you mean 'other'?"),
        (MULTI, {"model": "x"}, "serves no model 'x'", "it has: minilm, other"),
        (
            COMPARED,
            {"model": "other"},
            "the variant 'main' of the endpoint 'search' has no model 'other'",
            "it has",
        ),
        (
            COMPARED,
            {"variant": "chalenger"},
            "has no answering variant 'chalenger'",
            "did you mean 'challenger'?",
        ),
        (
            COMPARED.replace("challenger", "shadow"),
            {"variant": "shadow"},
            "has no answering variant 'shadow'",
            "it has: main",
        ),
    ],
)
def test_invalid_invoke_targets_are_rejected(project, endpoint, selection, message, remedy):
    workspace = project_with(project, endpoint)
    with pytest.raises(UsageError) as caught:
        find_target(workspace, "search", **selection)
    assert message in caught.value.message
    assert remedy in str(caught.value.remedy)
