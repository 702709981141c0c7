"""How the tensors of an ensemble's steps connect, and every mismatch."""

from pathlib import Path
from typing import Any

import pytest

from model_build.recipes.pipeline import Pipeline, Wiring
from tritonstack.base.yaml import load_document
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.model.recipes import EnsembleRecipe
from tritonstack.files.records.manifests import Manifest, TensorSpec


def tensor(text: str) -> TensorSpec:
    """Parse `name:FP32:-1,8`."""
    name, datatype, *sizes = text.split(":")
    shape = tuple(int(size) for size in sizes[0].split(",")) if sizes else (1,)
    return TensorSpec(name=name, datatype=datatype, shape=shape)


def member(inputs: str, outputs: str, max_batch: int = 8) -> Manifest:
    return Manifest.model_construct(
        inputs=tuple(map(tensor, inputs.split())),
        outputs=tuple(map(tensor, outputs.split())),
        max_batch=max_batch,
    )


MEMBERS = {
    "encode": member("TEXT:BYTES:1", "embedding:FP32:384"),
    "classify": member("embedding:FP32:-1", "scores:FP32:3 debug:FP32:1", max_batch=4),
    "rank": member("scores:FP32:3 limit:INT64:1", "order:INT64:3"),
    "typed": member("embedding:FP64:384", "y:FP64:1"),
    "flat": member("embedding:FP32:384,1", "y:FP32:1"),
    "narrow": member("embedding:FP32:100", "y:FP32:1"),
    "unbatched": member("embedding:FP32:384", "y:FP32:1", max_batch=0),
    "other": member("embeding:FP32:384", "y:FP32:1"),
    "wide": member("TEXT:BYTES:-1", "length:INT64:1"),
    "same": member("x:FP32:-1", "x:FP32:-1"),
    "join": member("a:FP32:-1 b:FP32:-1", "y:FP32:-1"),
}


def wire(tmp_path: Path, steps: str, extra: str = "", outputs: str = "") -> Wiring:
    listing = "".join(f"    - {step}\n" for step in steps.split("; "))
    file = tmp_path / "model.yaml"
    file.write_text(
        "name: whole\ndescription: A pipeline.\ntest_inputs: [a]\n"
        f"recipe:\n  kind: ensemble\n{outputs}  steps:\n{listing}{extra}"
    )
    document = load_document(file, ModelSpec)
    assert isinstance(document.record.recipe, EnsembleRecipe)
    return Wiring(document, document.record.recipe, MEMBERS)


def wired(*arguments: Any, **options: Any) -> Pipeline:
    wiring = wire(*arguments, **options)
    pipeline = wiring.run()
    assert pipeline is not None, [str(violation) for violation in wiring.violations]
    return pipeline


def names(tensors: tuple[TensorSpec, ...]) -> list[str]:
    return [spec.name for spec in tensors]


def test_tensors_are_connected_by_name(tmp_path):
    pipeline = wired(tmp_path, "{model: encode}; {model: classify}; {model: rank}")
    assert (names(pipeline.inputs), names(pipeline.outputs)) == (["TEXT", "limit"], ["debug", "order"])
    assert pipeline.max_batch == 4
    narrowed = wired(tmp_path, "{model: wide}; {model: encode}").inputs
    assert narrowed[0].shape == (1,), "an input of two steps has the limits of both"


def test_branches_join(tmp_path):
    """One input goes to two steps, and another step joins what they make."""
    pipeline = wired(
        tmp_path,
        "{model: same, inputs: {x: in}, outputs: {x: left}}; "
        "{model: same, inputs: {x: in}, outputs: {x: right}}; "
        "{model: join, inputs: {a: left, b: right}}",
    )
    assert (names(pipeline.inputs), names(pipeline.outputs)) == (["in"], ["y"])


def test_chosen_outputs_are_added(tmp_path):
    pipeline = wired(
        tmp_path, "{model: encode}; {model: classify}", outputs="  outputs: [scores, embedding]\n"
    )
    assert names(pipeline.outputs) == ["scores", "embedding"]
    assert pipeline.steps[1].outputs == {"scores": "scores"}, "nobody takes `debug`"


def test_one_model_twice_by_mapping(tmp_path):
    pipeline = wired(
        tmp_path,
        "{model: encode, inputs: {TEXT: QUERY}, outputs: {embedding: query}}; "
        "{model: encode, inputs: {TEXT: PASSAGE}, outputs: {embedding: passage}}; "
        "{model: classify, inputs: {embedding: query}}",
        extra="batching: {max_batch: 2}\n",
    )
    assert names(pipeline.inputs) == ["QUERY", "PASSAGE"]
    assert names(pipeline.outputs) == ["passage", "scores", "debug"]
    assert pipeline.max_batch == 2


CYCLE = (
    "{model: same, inputs: {x: c}, outputs: {x: a}}; {model: same, inputs: {x: a}, outputs: {x: b}}; "
    "{model: same, inputs: {x: b}, outputs: {x: c}}"
)
TWO = "{model: encode}; {model: classify}"


@pytest.mark.parametrize(
    ("steps", "options", "line", "field", "value"),
    [
        ("{model: encode}; {model: typed}", {}, 8, "steps.1", "FP64 [384]; it is FP32 [384]"),
        ("{model: encode}; {model: flat}", {}, 8, "steps.1", "different ranks"),
        ("{model: encode}; {model: narrow}", {}, 8, "steps.1", "(output of step 1): other sizes"),
        ("{model: encode}; {model: unbatched}", {}, 8, "steps.1", "no batch dimension"),
        ("{model: encode, outputs: {embeding: x}}; {model: classify}", {}, 7, "steps.0", "'embedding'?"),
        (
            "{model: encode}; {model: classify, inputs: {vector: embedding}}",
            {},
            8,
            "steps.1",
            "allowed: embedding",
        ),
        ("{model: encode}; {model: other}", {}, 8, "steps.1", "did you mean 'embedding'"),
        ("{model: encode}; {model: encode}", {}, 8, "steps.1", "already exists (output of step"),
        ("{model: classify}; {model: encode}", {}, 8, "steps.1", "'embedding'; already input of step 1"),
        ("{model: encode}; {model: same}", {}, 8, "steps.1", "'x', which already exists (input of step 2)"),
        (
            CYCLE,
            {},
            9,
            "steps.2.outputs.x",
            "step 1 (same) -> step 2 (same) -> step 3 (same) -> step 1 (same)",
        ),
        (TWO, {"extra": "batching: {max_batch: 5}\n"}, 9, "batching.max_batch", "'classify' takes at most 4"),
        (TWO, {"outputs": "  outputs: [score]\n"}, 6, "outputs.0", "'scores'?"),
        (TWO, {"outputs": "  outputs: [embedding]\n"}, 9, "steps.1", "'classify'"),
    ],
)
def test_mismatches_are_rejected(tmp_path, steps, options, line, field, value):
    wiring = wire(tmp_path, steps, **options)
    assert wiring.run() is None
    assert all(violation.remedy for violation in wiring.violations)
    assert any(
        (each.line, field in (each.field or ""), value in str(each)) == (line, True, True)
        for each in wiring.violations
    ), wiring.violations
