"""All examples of errors, and the codes that have none."""

from __future__ import annotations

from tests.errors.examples import artifacts, aws, builds, files, machine, project, usage
from tests.errors.examples.base import EXAMPLES, Example, Shown, part, produce, show

__all__ = ["EXAMPLES", "HOW_ELSE", "Example", "Shown", "part", "produce", "show"]

assert all((artifacts, aws, builds, files, machine, project, usage))

HOW_ELSE = {
    "TS215": "A model whose full batch exceeds 25 MiB, on an endpoint that answers at once.",
    "TS221": "`tritonstack validate` of a model with `source: hf://org/name@main`.",
    "TS313": "A graph exported with a fixed size: the build compares its answers at another size.",
    "TS325": "`tritonstack build` with a Dockerfile in `containers/` that Docker cannot build.",
    "TS352": "A model of random weights, for which two tokens are equally likely.",
    "TS375": "`tritonstack build` of a decoupled model whose code sends the final flag alone.",
    "TS411": "Somebody deleted an image from the registry after the build.",
    "TS417": "`tritonstack promote` before the artifact has run in the source for `soaked_hours`.",
    "TS422": "`tritonstack rollback` while somebody changes the endpoint in the AWS console.",
    "TS506": "A change of an endpoint's name while the old endpoint is in service.",
    "TS915": "`tritonstack bench` on an endpoint whose model fails on every request.",
    "TS916": "`tritonstack tune` of an ONNX graph, whose backend the embedded server has only as a stand-in.",
    "TS918": "`tritonstack simulate --objective p99=20ms,lost=0` with a model that takes 50 ms per request.",
}
"""How codes arise whose examples would need a real build, registry, or deployment."""
