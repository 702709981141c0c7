"""Findings about ensembles."""

import pytest

from tests.model_build.linting.given_repositories import (
    ENSEMBLE,
    ONNX,
    PYTHON,
    TRIO,
    Files,
    assert_finding,
    write,
)


def trio(old: str, new: str) -> Files:
    assert old in ENSEMBLE
    return {**TRIO, "whole/config.pbtxt": ENSEMBLE.replace(old, new)}


CASES = {
    "missing part": (
        {name: text for name, text in TRIO.items() if not name.startswith("cut/")},
        "error TS214 whole/config.pbtxt:6 ensemble_scheduling cut",
    ),
    "hidden": (trio("platform: ", "platform : "), "error TS209 whole/config.pbtxt:2 platform whole"),
    "comment": (
        {**TRIO, "cut/config.pbtxt": PYTHON + '# not platform: "ensemble"\n'},
        "error TS209 cut/config.pbtxt -",
    ),
    "backend": (trio("platform: ", "backend: "), "error TS214 whole/config.pbtxt:2 backend backend"),
    "two": (
        {**TRIO, "also/config.pbtxt": ENSEMBLE.replace('"whole"', '"also"'), "also/1/x": ""},
        "error TS209 {path} - also, whole",
    ),
    "instances": (
        trio('name: "whole"', 'name: "whole" instance_group { count: 2 }'),
        "error TS214 whole/config.pbtxt:1 instance_group instance_group",
    ),
    "no steps": (
        {**TRIO, "whole/config.pbtxt": 'platform: "ensemble"\n'},
        "error TS214 whole/config.pbtxt ensemble_scheduling step",
    ),
    "misspelled tensor": (
        trio('key: "TEXT" value', 'key: "TEXTS" value'),
        "error TS214 whole/config.pbtxt:11 ensemble_scheduling.step.input_map 'TEXTS'",
    ),
    "missing input": (
        trio('input_map { key: "x" value: "features" }', ""),
        "error TS214 whole/config.pbtxt:14 ensemble_scheduling.step.input_map 'x' of scores",
    ),
    "type": (
        trio('"y" data_type: TYPE_FP32', '"y" data_type: TYPE_INT64'),
        "error TS214 whole/config.pbtxt:14 ensemble_scheduling.step 'y' is INT64 in whole and FP32 in scores",
    ),
    "unknown type": (
        {**TRIO, "scores/config.pbtxt": ONNX.replace("TYPE_FP32 dims: [ 4 ]", "99 dims: [ 4 ]")},
        "error TS214 whole/config.pbtxt:14 ensemble_scheduling.step 99",
    ),
    "size": (
        trio("dims: [ 2 ]", "dims: [ 3 ]"),
        "error TS214 whole/config.pbtxt:14 ensemble_scheduling.step [-1, 3] in whole and [-1, 2]",
    ),
    "batch": (
        trio("max_batch_size: 8", "max_batch_size: 16"),
        "error TS214 whole/config.pbtxt:3 max_batch_size 16, and its part cut 8",
    ),
    "version": (
        trio('model_name: "cut"\n      model_version: -1', 'model_name: "cut"\n      model_version: 7'),
        "error TS214 whole/config.pbtxt:10 ensemble_scheduling.step.model_version version 7",
    ),
    "unconnected": (
        trio('output_map { key: "x" value: "features" }', 'output_map { key: "x" value: "other" }'),
        "error TS214 whole/config.pbtxt:6 ensemble_scheduling 'features'",
    ),
    "unused": (
        trio('output_map { key: "x" value: "features" }', 'output_map { key: "x" value: "other" }'),
        "error TS214 whole/config.pbtxt:6 ensemble_scheduling 'other'",
    ),
    "unused input": (
        trio("output [", 'input [ { name: "z" data_type: TYPE_FP32 dims: [ 1 ] } ]\noutput ['),
        "error TS214 whole/config.pbtxt:4 input 'z'",
    ),
    "circle": (
        trio('input_map { key: "TEXT" value: "TEXT" }', 'input_map { key: "TEXT" value: "y" }'),
        "error TS214 whole/config.pbtxt:5 output 'y'",
    ),
    "itself": (
        trio('model_name: "cut"', 'model_name: "whole"'),
        "error TS214 whole/config.pbtxt:6 ensemble_scheduling itself",
    ),
    "computed twice": (
        trio('key: "x" value: "features" }\n    },', 'key: "x" value: "y" }\n    },'),
        "error TS214 whole/config.pbtxt:6 ensemble_scheduling 'y'",
    ),
}


@pytest.mark.parametrize(("files", "finding"), CASES.values(), ids=CASES)
def test_finding(tmp_path, files, finding):
    assert_finding(write(tmp_path / "given", files), finding)
