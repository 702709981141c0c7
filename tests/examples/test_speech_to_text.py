"""examples/speech-to-text: its README, the code of its models, and its image."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.examples.running import passed
from tools.examples import GALLERY
from tritonstack.base.paths import Project
from tritonstack.operate.project.repository import create_repository
from tritonstack.operate.project.validate import validate
from tritonstack.operate.shared.session import Session

FOLDER = GALLERY / "speech-to-text"
MODELS = ("speech", "whisper-small")
RATE = 16_000

Import = Callable[[str, Path], Any]


class TritonError(str):
    """An error of Triton's Python backend, by its message."""

    INVALID_ARG = 3

    def __new__(cls, message: str, code: int) -> TritonError:
        assert code == cls.INVALID_ARG
        return super().__new__(cls, message)


@pytest.mark.soak
def test_its_readme_runs(tmp_path):
    result = passed("speech-to-text", tmp_path)
    assert [(model.model, model.kind) for model in result.models] == [("speech", "single, python")]
    assert result.models[0].max_absolute_error == 0
    log = (tmp_path / "log.txt").read_text()
    assert len(re.findall(r"equal to transformers$", log, re.MULTILINE)) == 3
    assert "12 callers" in log
    assert "400: RATE is 8000" in log
    assert "400: AUDIO has 0" in log


@pytest.fixture
def imported(monkeypatch: pytest.MonkeyPatch) -> Import:
    """Return a function that imports a module from a folder, with records instead of Triton's classes."""
    backend = ModuleType("triton_python_backend_utils")
    backend.__dict__.update(
        Tensor=lambda name, array: SimpleNamespace(name=name, array=array),
        TritonError=TritonError,
        InferenceResponse=lambda tensors=(), error=None: SimpleNamespace(
            error=error, texts=[row[0].decode() for tensor in tensors for row in tensor.array]
        ),
        get_input_tensor_by_name=lambda request, name: SimpleNamespace(as_numpy=lambda: request[name]),
    )
    monkeypatch.setitem(sys.modules, backend.__name__, backend)

    def load(name: str, folder: Path) -> Any:
        monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
        for module in ("answers", "model", "right", "sounds", "tones", "train"):
            monkeypatch.delitem(sys.modules, module, raising=False)
        return importlib.import_module(name)

    return load


def request(*sounds: np.ndarray, rate: int = RATE) -> dict[str, Any]:
    """Return a request with sounds of one length."""
    return {"AUDIO": np.stack(sounds), "RATE": np.full((len(sounds), 1), rate, np.int32)}


def noise(samples: int) -> Any:
    return np.random.default_rng(samples).uniform(-0.5, 0.5, samples).astype(np.float32)


@pytest.mark.parametrize(
    ("sound", "rate", "message"),
    [
        (noise(10), 8000, "RATE is 8000, expected 16000"),
        (noise(0), RATE, "AUDIO has 0 samples"),
        (np.zeros(9_600_001, np.float32), RATE, "AUDIO has 9600001 samples"),
        (np.array([0, np.nan], np.float32), RATE, "AUDIO has values that"),
        (np.array([0, -32768], np.float32), RATE, "AUDIO has values up to 32768"),
    ],
)
def test_an_invalid_request_is_rejected_alone(sound, rate, message, imported):
    answers = imported("answers", FOLDER / "models/speech")
    requests = [request(noise(5), noise(6)[:5]), request(sound, rate=rate), request(noise(70_000))]
    first, second, third = answers.answer_requests(
        requests, 48_000, lambda windows: [f" {len(window)} " for window in windows]
    )
    assert first.texts == ["5", "5"]
    assert second.error.startswith(message)
    assert second.texts == []
    assert sum(map(int, third.texts[0].split())) == 70_000


def test_the_code_of_the_pretrained_model_answers_batches_as_transformers(tmp_path, imported):
    """With a random Whisper: any text is right that transformers gives for the same window."""
    import torch

    train = imported("train", FOLDER)
    torch.manual_seed(8)
    whisper = train.new_model()
    whisper.generation_config.suppress_tokens = [train.PAD, train.BEGIN, train.END]
    with torch.no_grad():
        for name, weights in whisper.named_parameters():
            if weights.dim() > 1 and "embed" not in name:
                weights.mul_(16)  # so that the words depend on the sound
    for part in (whisper, train.extractor(), train.tokenizer()):
        part.save_pretrained(tmp_path / "1")
    right = imported("right", FOLDER / "models/whisper-small")
    model = imported("model", FOLDER / "models/whisper-small").TritonPythonModel()
    arguments = {"model_repository": str(tmp_path), "model_version": "1", "model_instance_kind": "CPU"}
    model.initialize(arguments)
    random = np.random.default_rng(1)
    sounds = [train.speak(words, random) for words in (["do"], ["mi", "so", "la"], ["ti", "re"] * 6)]
    answered = model.execute([request(sound) for sound in sounds])
    for sound, answer in zip(sounds, answered, strict=True):
        assert answer.texts == [right.transcribe(request(sound), tmp_path / "1")["TEXT"].item().decode()]
    assert len({text.split()[0] for answer in answered for text in answer.texts}) > 1


@pytest.fixture
def repository(tmp_path: Path) -> Project:
    """Return a copy of the example, with files where train.py writes the weights."""
    create_repository(tmp_path / "it", example="speech-to-text")
    weights = tmp_path / "it/models/speech/weights"
    (weights / "served").mkdir(parents=True)
    (weights / "served/mel_filters.npy").write_bytes(b"")
    (weights / "samples").mkdir()
    pretrained = tmp_path / "it/models/whisper-small/weights"
    pretrained.mkdir()
    for name in ("short", "window", "long"):
        np.savez(weights / f"samples/{name}.npz", **request(noise(RATE)))
    np.savez(pretrained / "tones.npz", **request(noise(RATE)))
    return Project(tmp_path / "it")


def test_the_environments_are_valid(repository):
    checked = validate(Session(repository))
    assert {"dev-gpu", "dev-image", "local"} <= {*checked.environments}
    assert checked.models == MODELS
