"""Imports of damaged or unusual inputs: an error with a remedy, and nothing left in the project."""

import os
from collections.abc import Mapping

import pytest

from tritonstack.base.errors import TritonstackError
from tritonstack.workflows import Session
from tritonstack.workflows.artifacts.importing import ImportOptions, import_model

CONFIG = (
    b'name: "m"\nbackend: "python"\nmax_batch_size: 0\ninput { name: "x" data_type: TYPE_FP32 dims: 2 }\n'
    b'output { name: "y" data_type: TYPE_FP32 dims: 2 }\n'
)
CODE = b"class TritonPythonModel:\n    def execute(self, requests):\n        return []\n"
GOOD: Mapping[bytes, bytes] = {b"m/config.pbtxt": CONFIG, b"m/1/model.py": CODE}
WARM_UP = b'model_warmup { name: "w" inputs { key: "x" value { input_data_file: "f" } } }\n'
HOSTILE: Mapping[str, tuple[Mapping[bytes, bytes], str]] = {
    "unknown field": ({**GOOD, b"m/config.pbtxt": CONFIG + b"foo: 1\n"}, '"foo"'),
    "no version": ({b"m/config.pbtxt": CONFIG}, "version folder"),
    "version 01": ({b"m/config.pbtxt": CONFIG, b"m/01/model.py": CODE}, "version folder"),
    "backend": ({**GOOD, b"m/config.pbtxt": CONFIG.replace(b"python", b"paddle")}, "no backend 'paddle'"),
    "warm-up": ({**GOOD, b"m/config.pbtxt": CONFIG + WARM_UP}, "warmup/f"),
    "name in bytes": ({**GOOD, b"m/1/\xff.bin": b""}, "unsafe name"),
    "text in bytes": ({**GOOD, b"m/config.pbtxt": CONFIG + b"# \xff\n"}, "is not UTF-8"),
    "empty": ({}, "nothing to import"),
    "existing": (
        {b"minilm/config.pbtxt": CONFIG.replace(b'"m"', b'"minilm"'), b"minilm/1/model.py": CODE},
        "models/minilm",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_folder_is_rejected_whole(name, project, tmp_path):
    files, message = HOSTILE[name]
    (tmp_path / "given").mkdir()
    for file, content in files.items():
        path = os.path.join(os.fsencode(tmp_path / "given"), file)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as stream:
            stream.write(content)
    before = sorted(project.root.rglob("*"))
    with pytest.raises(TritonstackError) as caught:
        import_model(Session(project), tmp_path / "given", ImportOptions())
    assert message in str(caught.value)
    assert "help: " in str(caught.value)
    assert sorted(project.root.rglob("*")) == before
