"""Findings about the layout of a repository, and repositories without findings."""

from dataclasses import replace

import pytest

from tests.model_build.linting.given_repositories import (
    CUT,
    ENSEMBLE,
    ONNX,
    OPTIONS,
    SINGLE,
    TRIO,
    Files,
    assert_finding,
    findings,
    found_at,
    packed,
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
    "hidden ensemble": (trio("platform: ", "platform : "), "error TS209 whole/config.pbtxt:2 platform whole"),
    "backend ensemble": (trio("platform: ", "backend: "), "error TS214 whole/config.pbtxt:2 backend backend"),
    "flat": ({"config.pbtxt": ONNX, "1/model.onnx": "graph"}, "error TS326 config.pbtxt -"),
    "empty": ({}, "error TS326 {path} -"),
    "several": ({**SINGLE, **CUT}, "error TS209 {path} - cut, scores"),
    "stray": ({**TRIO, "notes/todo.txt": ""}, "warning TS209 notes -"),
    "no configuration": ({"scores/1/model.pt": "module"}, "error TS326 scores - config.pbtxt"),
    "derived configuration": ({"scores/1/model.onnx": "graph"}, "warning TS326 scores - onnxruntime"),
    "versions in the order of numbers": (
        {**SINGLE, "scores/10/model.onnx": "", "scores/9/model.onnx": ""},
        "warning TS332 scores/config.pbtxt - versions 1, 9, 10: Triton loads only the latest, 10",
    ),
    "file of trees": (
        {
            "scores/config.pbtxt": ONNX.replace("onnxruntime", "fil")
            + 'parameters { key: "model_type" value { string_value: "xgboost_json" } }',
            "scores/1/model.json": "",
        },
        "error TS326 scores/1 - xgboost.json",
    ),
    "trace": ({**SINGLE, "scores/.DS_Store": ""}, "warning TS326 scores/.DS_Store -"),
    "folder of a Mac": ({**SINGLE, "__MACOSX/x": ""}, "error TS326 __MACOSX -"),
    "repository of git": ({**SINGLE, ".git/HEAD": ""}, "error TS326 .git -"),
    "pickle": ({**CUT, "cut/1/weights.pkl": ""}, "warning TS332 cut/1/weights.pkl -"),
}


@pytest.mark.parametrize(("files", "finding"), CASES.values(), ids=CASES)
def test_finding(tmp_path, files, finding):
    assert_finding(write(tmp_path / "given", files), finding)


@pytest.mark.parametrize("files", [SINGLE, CUT, TRIO], ids=["model", "Python model", "ensemble"])
def test_sound_repositories_have_no_finding(tmp_path, files):
    path = write(tmp_path / "given", files)
    assert findings(path) == []
    assert findings(packed(path, tmp_path / "model.tar.gz")) == []


def test_a_leading_folder_is_found_and_its_models_are_checked(tmp_path):
    path = write(tmp_path / "given", {f"repository/{name}": text for name, text in SINGLE.items()})
    (path / "repository/scores/1/model.onnx").unlink()
    assert found_at(packed(path, tmp_path / "model.tar.gz")) == [
        "error TS326 {path} -",
        "error TS326 repository/scores -",
    ]


def test_an_ensemble_is_loaded_beside_other_folders(tmp_path):
    path = write(tmp_path / "given", {**TRIO, "__MACOSX/x": "", "notes/todo.txt": ""})
    assert [finding.severity for finding in findings(path)] == ["warning", "warning"]


def test_unsafe_names_links_and_empty_version_folders(tmp_path):
    path = write(tmp_path / "given", {**TRIO, "scores/1/$(id)": ""})
    (path / "scores/1/link").symlink_to("/etc/hostname")
    (path / "whole/1/README.txt").unlink()
    assert found_at(path) == [
        "error TS326 scores/1/$(id) -",
        "error TS326 scores/1/link -",
        "warning TS326 whole/config.pbtxt -",
    ]
    (path / "scores/config.pbtxt").unlink()
    assert "warning TS326 scores -" in found_at(path)


def test_the_default_model_decides_among_several(tmp_path):
    path = write(tmp_path / "given", {**SINGLE, **CUT})
    results = findings(path, replace(OPTIONS, default_model="cut"))
    assert [finding.severity for finding in results] == ["warning"]
    assert_finding(path, "error TS209 {path} - 'cat'", replace(OPTIONS, default_model="cat"))
