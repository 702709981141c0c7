"""examples/recommenders: its README, the contract of script mode, and the training job."""

import csv
import importlib.util
import io
import json
import os
import runpy
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import boto3
import numpy as np
import pytest

from tests.examples.running import passed
from tests.moto_aws import simulated_aws
from tools.examples import GALLERY

FOLDER = GALLERY / "recommenders"
ROLE = "arn:aws:iam::111111111111:role/training"


@pytest.mark.soak
def test_its_readme_runs(tmp_path):
    result = passed("recommenders", tmp_path)
    assert [(model.model, model.kind) for model in result.models] == [
        ("ncf-food", "single, torchscript"),
        ("ncf-food", "multi-model, torchscript"),
        ("ncf-fashion", "multi-model, torchscript"),
    ]
    assert all(model.max_absolute_error is not None for model in result.models)
    assert max(model.max_absolute_error or 0 for model in result.models) < 1e-5
    assert result.model_python_lines == 0


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the names of training_job.py, which imports the train.py beside it."""
    spec = importlib.util.spec_from_file_location("train", FOLDER / "train.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "train", module)  # each example has a module of this name
    spec.loader.exec_module(module)
    return runpy.run_path(str(FOLDER / "training_job.py"))


def run_training(script: Path, arguments: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(script), *arguments],
        cwd=script.parent,
        env={**os.environ, "OMP_NUM_THREADS": "1", **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def copied_script(folder: Path) -> Path:
    folder.mkdir()
    script = folder / "train.py"
    script.write_bytes((FOLDER / "train.py").read_bytes())
    return script


@pytest.mark.soak
def test_training_follows_script_mode(job, tmp_path):
    """SageMaker sets SM_* and passes hyperparameters as arguments; only SM_MODEL_DIR reaches the endpoint."""
    channel = tmp_path / "channel"
    channel.mkdir()
    (channel / "interactions.csv").write_bytes(job["interactions"]("food"))
    script = copied_script(tmp_path / "code")
    ended = run_training(
        script,
        ["--category", "food", "--epochs", "20"],
        SM_MODEL_DIR=str(tmp_path / "model"),
        SM_OUTPUT_DATA_DIR=str(tmp_path / "output"),
        SM_CHANNEL_TRAIN=str(channel),
    )
    assert ended.returncode == 0, ended.stderr
    assert sorted(file.name for file in (tmp_path / "model").iterdir()) == ["answers.npz", "model.pt"]
    assert [file.name for file in (tmp_path / "code").iterdir() if file.suffix] == ["train.py"]
    with np.load(tmp_path / "model/answers.npz") as answers:
        assert {name: answers[name].shape for name in answers} == {
            "user": (32, 1),
            "item": (32, 1),
            "outputs/OUTPUT__0": (32, 1),
        }
    metrics = json.loads((tmp_path / "output/metrics.json").read_text())
    assert metrics["ncf"]["hit_rate"] > 0.5 > metrics["popularity"]["hit_rate"]
    assert metrics["ncf"]["ndcg"] > 1.5 * metrics["popularity"]["ndcg"]


def test_the_training_job_is_a_valid_request(job, monkeypatch, capsys):
    """boto3 checks the parameters; moto stores them."""
    arguments = ["--category", "food", "--role", ROLE, "--bucket", "shop", "--start"]
    monkeypatch.setattr(sys, "argv", ["training_job.py", *arguments])
    with simulated_aws():
        s3 = boto3.client("s3", region_name="us-east-1")
        s3.create_bucket(Bucket="shop")
        assert job["main"]() == 0
        sagemaker = boto3.client("sagemaker", region_name="us-east-1")
        (summary,) = sagemaker.list_training_jobs()["TrainingJobSummaries"]
        started = sagemaker.describe_training_job(TrainingJobName=summary["TrainingJobName"])
        submitted = {key: json.loads(text) for key, text in started["HyperParameters"].items()}
        assert (submitted["sagemaker_program"], submitted["category"]) == ("train.py", "food")
        archive = read(s3, submitted["sagemaker_submit_directory"])
        with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
            assert opened.getnames() == ["train.py"]
        (channel,) = started["InputDataConfig"]
        data = read(s3, channel["DataSource"]["S3DataSource"]["S3Uri"] + "interactions.csv")
        rows = list(csv.DictReader(io.StringIO(data.decode())))
        assert len(rows) == 400 * 20
        assert started["OutputDataConfig"]["CompressionType"] == "NONE"
        assert "/pytorch-training:2.6.0-cpu-" in started["AlgorithmSpecification"]["TrainingImage"]
    assert "started arn:aws:sagemaker:us-east-1:" in capsys.readouterr().out


def read(s3: Any, uri: str) -> bytes:
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    content: bytes = s3.get_object(Bucket=bucket, Key=key)["Body"].read()
    return content
