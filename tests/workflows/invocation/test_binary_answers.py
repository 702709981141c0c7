"""Printed requests to models whose outputs JSON cannot hold read the binary answer."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.operations.smoke.smoke_environment import RIGHT
from tests.workflows.invocation.invoked_site import SINGLE, TOKENS, Site, X, Y
from tests.workflows.invocation.test_snippet import printed
from tritonstack.client.codec import content_type_for
from tritonstack.records.example_tensors import tensor_of
from tritonstack.records.examples import Example, RightAnswer
from tritonstack.spec.models.tolerance import Tolerance
from tritonstack.workflows.invocation.snippet import LANGUAGES


def stock(site: Site, dtype: type[np.generic], *, sent_as: type[np.generic] = np.float32) -> None:
    site.model(TOKENS, SINGLE)
    answer = dict(tensor_of("y", RIGHT.astype(dtype)))
    right = RightAnswer(**answer, tolerance=Tolerance(cosine=0.9999))
    sent = tensor_of("x", np.array([[1, 2, 3]], sent_as))
    site.stock(
        Example(name="input", origin="framework", inputs=(sent,), outputs=(right,)), inputs=(X,), outputs=(Y,)
    )


def test_the_request_asks_for_a_binary_answer(site: Site) -> None:
    stock(site, np.float16)
    request = printed(site)
    assert request.content_type == "application/json"
    assert json.loads(request.body)["parameters"] == {"binary_data_output": True}
    assert "answer.bin --write-out" in request.text
    assert "decode_reply" in request.text
    assert "decode_reply(answer" in printed(site, "boto3").text
    assert "client.infer(" in printed(site, "python").text  # decodes every answer by itself


def test_halves_are_also_sent_in_binary_form(site: Site) -> None:
    stock(site, np.float16, sent_as=np.float16)
    request = printed(site)
    size = int(request.content_type.rpartition("=")[2])
    assert json.loads(request.body[:size])["parameters"] == {"binary_data_output": True}


@pytest.mark.parametrize("language", LANGUAGES)
def test_other_outputs_are_asked_for_in_json(site: Site, language: str) -> None:
    stock(site, np.float32)
    request = printed(site, language)
    assert "binary_data_output" not in request.body.decode()
    assert "answer.bin" not in request.text
    assert "decode_reply" not in request.text


def test_the_shell_reads_the_answer(site: Site, tmp_path: Path) -> None:
    """A curl that writes Triton's answer stands in for the endpoint."""
    stock(site, np.float16)
    text = printed(site).text.replace("python3 -c", f"{sys.executable} -c")
    values = np.array([[1.5, -2.0]], np.float16).tobytes()
    output = {"name": "y", "datatype": "FP16", "shape": [1, 2], "parameters": {"binary_data_size": 4}}
    header = json.dumps({"outputs": [output]}).encode()
    content_type = content_type_for(len(header))
    (tmp_path / "body").write_bytes(header + values)
    replaced = f"curl() {{ cp body answer.bin; printf '%s' '{content_type}'; }}\n"
    program = f"cd {tmp_path}\n{replaced}{text}"
    done = subprocess.run(["bash", "-c", program], check=True, capture_output=True, text=True)
    assert re.search(r"'y': array\(\[\[ ?1\.5, -2\. ?\]\], dtype=float16\)", done.stdout)
