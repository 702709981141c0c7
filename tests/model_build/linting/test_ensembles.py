"""Findings about ensembles."""

import pytest

from tests.model_build.linting.given_repositories import (
    ENSEMBLE,
    ONNX,
    PYTHON,
    TRIO,
    Files,
    assert_found,
)


def trio(old: str, new: str) -> Files:
    assert old in ENSEMBLE
    return {**TRIO, "whole/config.pbtxt": ENSEMBLE.replace(old, new)}


CASES = {
    "missing part": (
        {name: text for name, text in TRIO.items() if not name.startswith("cut/")},
        "error whole/config.pbtxt:6: ensemble_scheduling: the ensemble whole needs cut, which is missing "
        "[TS214]",
    ),
    "hidden": (
        trio("platform: ", "platform : "),
        "error whole/config.pbtxt:2: platform: multi-model hosting does not recognize the ensemble whole: "
        'its config.pbtxt must contain platform: "ensemble", with no space before the colon [TS209]',
    ),
    "comment": (
        {**TRIO, "cut/config.pbtxt": PYTHON + '# not platform: "ensemble"\n'},
        "error cut/config.pbtxt: cut looks like an ensemble: its config.pbtxt contains the text platform: "
        '"ensemble" [TS209]',
    ),
    "backend": (
        trio("platform: ", "backend: "),
        'error whole/config.pbtxt:2: backend: has backend: "ensemble"; Triton needs platform: "ensemble" '
        "[TS214]",
    ),
    "two": (
        {**TRIO, "also/config.pbtxt": ENSEMBLE.replace('"whole"', '"also"'), "also/1/x": ""},
        "error {path}: expected at most one ensemble, got also, whole [TS209]",
    ),
    "instances": (
        trio('name: "whole"', 'name: "whole" instance_group { count: 2 }'),
        "error whole/config.pbtxt:1: instance_group: an ensemble cannot have instance_group [TS214]",
    ),
    "no steps": (
        {**TRIO, "whole/config.pbtxt": 'platform: "ensemble"\n'},
        "error whole/config.pbtxt: ensemble_scheduling: the ensemble has no step [TS214]",
    ),
    "misspelled tensor": (
        trio('key: "TEXT" value', 'key: "TEXTS" value'),
        "error whole/config.pbtxt:11: ensemble_scheduling.step.input_map: cut has no input 'TEXTS' [TS214]",
    ),
    "missing input": (
        trio('input_map { key: "x" value: "features" }', ""),
        "error whole/config.pbtxt:14: ensemble_scheduling.step.input_map: the input 'x' of scores is not "
        "mapped [TS214]",
    ),
    "type": (
        trio('"y" data_type: TYPE_FP32', '"y" data_type: TYPE_INT64'),
        "error whole/config.pbtxt:14: ensemble_scheduling.step: 'y' is INT64 in whole and FP32 in scores "
        "[TS214]",
    ),
    "unknown type": (
        {**TRIO, "scores/config.pbtxt": ONNX.replace("TYPE_FP32 dims: [ 4 ]", "99 dims: [ 4 ]")},
        "error whole/config.pbtxt:14: ensemble_scheduling.step: 'features' is FP32 in cut and 99 in scores "
        "[TS214]",
    ),
    "size": (
        trio("dims: [ 2 ]", "dims: [ 3 ]"),
        "error whole/config.pbtxt:14: ensemble_scheduling.step: 'y' has dims [-1, 3] in whole and [-1, 2] in "
        "scores [TS214]",
    ),
    "batch": (
        trio("max_batch_size: 8", "max_batch_size: 16"),
        "error whole/config.pbtxt:3: max_batch_size: the ensemble has max_batch_size 16, and its part cut 8 "
        "[TS214]",
    ),
    "version": (
        trio('model_name: "cut"\n      model_version: -1', 'model_name: "cut"\n      model_version: 7'),
        "error whole/config.pbtxt:10: ensemble_scheduling.step.model_version: step 1 needs version 7 of cut, "
        "which is missing [TS214]",
    ),
    "unconnected": (
        trio('output_map { key: "x" value: "features" }', 'output_map { key: "x" value: "other" }'),
        "error whole/config.pbtxt:6: ensemble_scheduling: a step needs 'features': no step computes it "
        "[TS214]",
    ),
    "unused": (
        trio('output_map { key: "x" value: "features" }', 'output_map { key: "x" value: "other" }'),
        "error whole/config.pbtxt:6: ensemble_scheduling: nothing uses 'other': Triton rejects unused "
        "tensors [TS214]",
    ),
    "unused input": (
        trio("output [", 'input [ { name: "z" data_type: TYPE_FP32 dims: [ 1 ] } ]\noutput ['),
        "error whole/config.pbtxt:4: input: no step uses the input 'z' [TS214]",
    ),
    "circle": (
        trio('input_map { key: "TEXT" value: "TEXT" }', 'input_map { key: "TEXT" value: "y" }'),
        "error whole/config.pbtxt:5: output: the output 'y' is never computed: its steps wait for each other "
        "[TS214]",
    ),
    "itself": (
        trio('model_name: "cut"', 'model_name: "whole"'),
        "error whole/config.pbtxt:6: ensemble_scheduling: the ensemble whole contains itself [TS214]",
    ),
    "computed twice": (
        trio('key: "x" value: "features" }\n    },', 'key: "x" value: "y" }\n    },'),
        "error whole/config.pbtxt:6: ensemble_scheduling: several outputs are mapped to 'y' [TS214]",
    ),
}


@pytest.mark.parametrize("form", ["folder", "archive"])
@pytest.mark.parametrize(("files", "line"), CASES.values(), ids=CASES)
def test_finding(tmp_path, files, line, form):
    assert_found(tmp_path, files, line, form)
