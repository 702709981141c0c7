"""Findings about the layout of a repository, and repositories without findings."""

from dataclasses import replace

import pytest

from tests.model_build.linting.given_repositories import (
    CUT,
    ONNX,
    OPTIONS,
    SINGLE,
    TRIO,
    assert_found,
    findings,
    lines,
    packed,
    write,
)

CASES = {
    "flat": (
        {"config.pbtxt": ONNX, "1/model.onnx": "graph"},
        "error config.pbtxt: at the top level is rejected by single-model hosting [TS326]",
    ),
    "empty": ({}, "error {path}: no model folder [TS326]"),
    "several": (
        {**SINGLE, **CUT},
        "error {path}: got 2 model folders without an ensemble: cut, scores [TS209]",
    ),
    "stray": (
        {**TRIO, "notes/todo.txt": ""},
        "warning notes: is not part of the ensemble whole, so neither hosting mode loads it [TS209]",
    ),
    "no configuration": (
        {"scores/1/model.pt": "module"},
        "error scores: has no config.pbtxt [TS326]",
    ),
    "derived configuration": (
        {"scores/1/model.onnx": "graph"},
        "warning scores: scores has no config.pbtxt: Triton derives one of backend onnxruntime without "
        "batching, and fails with --disable-auto-complete-config [TS326]",
    ),
    "no version": (
        {"scores/config.pbtxt": ONNX, "scores/model.onnx": "graph"},
        "error scores: has no numeric version folder with a file in it [TS326]",
    ),
    "version with words": (
        {**SINGLE, "scores/2-old/model.onnx": ""},
        "error scores/2-old: starts like a version; versions are plain numbers from 1 [TS326]",
    ),
    "two versions": (
        {**SINGLE, "scores/2/model.onnx": ""},
        "warning scores/config.pbtxt: versions 1, 2: Triton loads only the latest, 2 [TS332]",
    ),
    "no model file": (
        {"scores/config.pbtxt": ONNX, "scores/1/graph.onnx": ""},
        "error scores/1: has no model.onnx [TS326]",
    ),
    "file of a platform": (
        {"scores/config.pbtxt": ONNX.replace('backend: "onnxruntime"', 'platform: "onnxruntime_onnx"'),
         "scores/1/graph.onnx": ""},
        "error scores/1: has no model.onnx [TS326]",
    ),
    "file of trees": (
        {"scores/config.pbtxt": ONNX.replace("onnxruntime", "fil")
         + 'parameters { key: "model_type" value { string_value: "xgboost_json" } }',
         "scores/1/model.json": ""},
        "error scores/1: has no xgboost.json [TS326]",
    ),
    "trace": (
        {**SINGLE, "scores/.DS_Store": ""},
        "warning scores/.DS_Store: a trace of a tool, which no model needs [TS326]",
    ),
    "trace of a Mac": (
        {**SINGLE, "scores/._config.pbtxt": ""},
        "warning scores/._config.pbtxt: a trace of a tool, which no model needs [TS326]",
    ),
    "folder of a Mac": (
        {**SINGLE, "__MACOSX/x": ""},
        "error __MACOSX: the folder __MACOSX counts as a model folder: a single-model endpoint starts only "
        "with SAGEMAKER_TRITON_DEFAULT_MODEL_NAME, and a multi-model endpoint may load this folder [TS326]",
    ),
    "repository of git": (
        {**SINGLE, ".git/HEAD": ""},
        "error .git: the folder .git counts as a model folder: a single-model endpoint starts only "
        "with SAGEMAKER_TRITON_DEFAULT_MODEL_NAME, and a multi-model endpoint may load this folder [TS326]",
    ),
    "pickle": (
        {**CUT, "cut/1/weights.pkl": ""},
        "warning cut/1/weights.pkl: a pickle: loading it can run any code, and needs the versions of Python "
        "and of the libraries that wrote it [TS332]",
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", ["folder", "archive"])
@pytest.mark.parametrize(("files", "line"), CASES.values(), ids=CASES)
def test_finding(tmp_path, files, line, form):
    assert_found(tmp_path, files, line, form)


@pytest.mark.parametrize("files", [SINGLE, CUT, TRIO], ids=["model", "Python model", "ensemble"])
def test_sound_repositories_have_no_finding(tmp_path, files):
    path = write(tmp_path / "given", files)
    assert lines(path) == []
    assert lines(packed(path, tmp_path / "model.tar.gz")) == []


def test_a_leading_folder_is_found_and_its_models_are_checked(tmp_path):
    path = write(tmp_path / "given", {f"repository/{name}": text for name, text in SINGLE.items()})
    (path / "repository/scores/1/model.onnx").unlink()
    assert lines(packed(path, tmp_path / "model.tar.gz")) == [
        f"error {tmp_path}/model.tar.gz: the repository is below the folder repository; SageMaker expects "
        "the model folders at the top level [TS326]",
        "error repository/scores: has no numeric version folder with a file in it [TS326]",
    ]


def test_an_unsafe_name_in_a_folder(tmp_path):
    path = write(tmp_path / "given", {**SINGLE, "scores/1/$(id)": ""})
    assert lines(path) == [
        "error scores/1/$(id): 'scores/1/$(id)': unsafe name; allowed are letters, digits, '.', '_', '-', "
        "and '/' [TS326]"
    ]


def test_an_ensemble_is_loaded_beside_other_folders(tmp_path):
    path = write(tmp_path / "given", {**TRIO, "__MACOSX/x": "", "notes/todo.txt": ""})
    assert [one.severity for one in findings(path)] == ["warning", "warning"]


def test_a_part_of_an_ensemble_without_configuration(tmp_path):
    files = {name: text for name, text in TRIO.items() if name != "scores/config.pbtxt"}
    path = write(tmp_path / "given", {**files, "scores/1/model.onnx": ""})
    assert [one.partition(": ")[0] for one in lines(path)] == ["warning scores"]


def test_a_link_and_an_empty_version_folder(tmp_path):
    path = write(tmp_path / "given", TRIO)
    (path / "scores/1/link").symlink_to("/etc/hostname")
    (path / "whole/1/README.txt").unlink()
    assert lines(path) == [
        "error scores/1/link: is a link to /etc/hostname, outside the repository [TS326]",
        "warning whole/config.pbtxt: the version folder of whole is empty, and some tools drop empty folders "
        "[TS326]",
    ]


def test_the_default_model_decides_among_several(tmp_path):
    path = write(tmp_path / "given", {**SINGLE, **CUT})
    found = findings(path, replace(OPTIONS, default_model="cut"))
    assert [one.severity for one in found] == ["warning"]
    assert lines(path, replace(OPTIONS, default_model="cat"))[0] == (
        f"error {path}: SAGEMAKER_TRITON_DEFAULT_MODEL_NAME names 'cat', which is missing [TS209]"
    )
