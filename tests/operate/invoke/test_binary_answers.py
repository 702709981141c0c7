"""Printed requests to models whose outputs JSON cannot hold read the binary answer."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.operate.invoke.invoked_site import SINGLE, TOKENS, Site, X, Y
from tests.operate.invoke.test_snippet import printed
from tests.operate.verify.smoke_environment import RIGHT
from tritonstack.client.codec import content_type_for
from tritonstack.files.model.tolerance import Tolerance
from tritonstack.files.records.examples import Example, RightAnswer, tensor_of
from tritonstack.operate.invoke.snippet import LANGUAGES
from tritonstack.operate.invoke.snippet_texts import DECODING

HALVES = [1.5, -0.333251953125, 65504.0, 6e-8, 0.0, -np.inf]


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
    assert "text answer.bin" in printed(site, "aws-cli").text
    assert 'Files.write(Path.of("answer.bin"), answer.body().asByteArray());' in printed(site, "java").text
    assert DECODING in printed(site, "javascript").text
    assert "client.infer(" in printed(site, "python").text  # decodes every answer by itself


@pytest.mark.parametrize("language", LANGUAGES)
def test_other_outputs_are_asked_for_in_json(site: Site, language: str) -> None:
    stock(site, np.float32)
    request = printed(site, language)
    assert "binary_data_output" not in request.body.decode()
    assert "answer.bin" not in request.text
    assert "DataView" not in request.text


def answer_of(outputs: dict[str, tuple[str, np.ndarray]]) -> tuple[bytes, str]:
    """Return the body and content type of Triton's binary answer."""
    parts, described = [], []
    for name, (datatype, array) in outputs.items():
        data = array.tobytes()
        if datatype == "BYTES":
            data = b"".join(len(value).to_bytes(4, "little") + value for value in array.flat)
        sizes = {"binary_data_size": len(data)}
        described.append(
            {"name": name, "datatype": datatype, "shape": list(array.shape), "parameters": sizes}
        )
        parts.append(data)
    header = json.dumps({"outputs": described}).encode()
    return b"".join([header, *parts]), content_type_for(len(header))


def test_javascript_reads_every_datatype(tmp_path: Path) -> None:
    kinds = {
        "FP16": np.array(HALVES, np.float16),
        "FP32": np.array([0.25, -3], np.float32),
        "FP64": np.array([1e-300]),
        "BF16": (np.array([1.5, -2], np.float32).view(np.uint32) >> 16).astype(np.uint16),
        "BOOL": np.array([True, False]),
        "INT8": np.array([-5], np.int8),
        "UINT16": np.array([65535], np.uint16),
        "INT32": np.array([-7, 7], np.int32),
        "INT64": np.array([2**60 + 1]),
        "UINT64": np.array([2**64 - 1], np.uint64),
        "BYTES": np.array(["naïve".encode(), b""], object),
    }
    body, content_type = answer_of({kind.lower(): (kind, array) for kind, array in kinds.items()})
    program = (
        f"const answer = {{ Body: new Uint8Array(Buffer.from('{body.hex()}', 'hex')), "
        f"ContentType: '{content_type}' }};\n"
        "const show = (_, value) => typeof value === 'bigint' || value === Infinity || value === -Infinity "
        "? String(value) : value;\n"
        "console.log = (...all) => process.stdout.write(JSON.stringify(all, show) + '\\n');\n"
    )
    file = tmp_path / "read.mjs"
    file.write_text(program + DECODING)
    lines = subprocess.run(["node", str(file)], check=True, capture_output=True, text=True).stdout
    read = {name: (shape, values) for name, _, shape, values in map(json.loads, lines.splitlines())}
    assert read["fp16"][0] == [6]
    halves = [float(value) for value in read["fp16"][1]]
    np.testing.assert_array_equal(np.array(halves), kinds["FP16"].astype(float))
    assert read["bf16"][1] == [1.5, -2]
    assert read["int64"][1] == [str(2**60 + 1)]
    assert read["uint64"][1] == [str(2**64 - 1)]
    assert read["bytes"][1] == ["naïve", ""]
    for kind in ("FP32", "FP64", "BOOL", "INT8", "UINT16", "INT32"):
        assert read[kind.lower()][1] == kinds[kind].tolist(), kind


def test_the_shell_reads_the_answer(site: Site, tmp_path: Path) -> None:
    """A curl that writes Triton's answer stands in for the endpoint."""
    import sys

    stock(site, np.float16)
    text = printed(site).text.replace("python3 -c", f"{sys.executable} -c")
    body, content_type = answer_of({"y": ("FP16", np.array([[1.5, -2.0]], np.float16))})
    (tmp_path / "body").write_bytes(body)
    replaced = f"curl() {{ cp body answer.bin; printf '%s' '{content_type}'; }}\n"
    program = f"cd {tmp_path}\n{replaced}{text}"
    done = subprocess.run(["bash", "-c", program], check=True, capture_output=True, text=True)
    assert re.search(r"'y': array\(\[\[ ?1\.5, -2\. ?\]\], dtype=float16\)", done.stdout)
