"""Builds started by CodePipeline, with the pipeline's artifacts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tritonstack_local.codebuild.refusals import PIPELINE


@dataclass(frozen=True, kw_only=True)
class PipelineOrder:
    """A build for a pipeline; artifacts by name, each an archive at `bucket/key`."""

    pipeline: str
    project: str
    source: str
    """The primary input artifact."""
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    variables: Sequence[Mapping[str, Any]] = field(default=())
    """As in StartBuild's environmentVariablesOverride."""

    def settings(self, project: Mapping[str, Any]) -> dict[str, Any]:
        """Return the overrides of the project's sources and artifacts."""
        secondary = {name: where for name, where in self.inputs.items() if name != self.source}
        # A single output has the buildspec's `artifacts`; several have secondary artifacts.
        several = len(self.outputs) > 1
        outputs = [_output(name if several else "", where) for name, where in self.outputs.items()]
        return {
            "source": {**project["source"], "location": self.inputs[self.source]},
            "secondarySources": [
                {"type": PIPELINE, "location": where, "sourceIdentifier": name}
                for name, where in secondary.items()
            ],
            "artifacts": outputs[0] if len(outputs) == 1 else {"type": PIPELINE},
            "secondaryArtifacts": outputs if several else [],
        }


def _output(name: str, where: str) -> dict[str, Any]:
    bucket, _, key = where.partition("/")
    named = {"artifactIdentifier": name} if name else {}
    return {"type": PIPELINE, "location": bucket, "name": key, "packaging": "ZIP", **named}
