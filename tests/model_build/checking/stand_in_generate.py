#!python
"""Stand in for a tritonserver with vLLM behind SageMaker's front end: /ping and /invocations with generate.

It rejects what the real one rejects. The weights' config.json can make it misbehave.
"""

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

REQUIRED = {
    "--allow-sagemaker=true",
    "--allow-http=false",
    "--model-control-mode=explicit",
    "--model-repository=/opt/ml/model/",
    "--disable-auto-complete-config",
}
KNOWN = (
    *("--model-namespacing=", "--allow-grpc=", "--allow-metrics=", "--log-verbose=", "--load-model="),
    *("--backend-config=", "--backend-directory=", "--cache-directory=", "--sagemaker-port="),
)


def load(arguments: list[str]) -> tuple[str, dict[str, object]]:
    """Return the model's name and config.json; exit with 1 if the backend would not start."""
    unknown = [item for item in arguments if item not in REQUIRED and not item.startswith(KNOWN)]
    if unknown or not set(arguments) >= REQUIRED:
        sys.exit(f"error: wrong options: {unknown or arguments}")
    if os.environ.get("SAGEMAKER_TRITON_INFERENCE_TYPE") != "generate":
        sys.exit("error: a decoupled model, and the front end asks for one answer")
    (name,) = [item.partition("=")[2] for item in arguments if item.startswith("--load-model=")]
    folder = Path("/opt/ml/model") / name
    config = (folder / "config.pbtxt").read_text()
    for needed in ('backend: "vllm"', "decoupled: true", 'name: "text_input"', 'name: "text_output"'):
        if needed not in config:
            sys.exit(f"error: the configuration has no {needed}")
    weights = Path(json.loads((folder / "1/model.json").read_text())["model"])
    if not (weights / "model.safetensors").is_file():
        sys.exit(f"error: there are no weights in {weights}")
    return name, json.loads((weights / "config.json").read_text())


class FrontEnd(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    name: str
    mode: str
    asked = 0

    def do_GET(self) -> None:
        self.answer(200 if self.path == "/ping" else 400, {})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path != "/invocations":
            self.answer(400, {})
            return
        try:
            self.answer(200, {"model_name": self.name, "model_version": "1", **self.generate(body)})
        except (ValueError, KeyError, TypeError, AssertionError) as error:
            self.answer(400, {"error": f"{type(error).__name__}: {error}"})

    def generate(self, body: bytes) -> dict[str, str]:
        question = json.loads(body)
        parameters = question.pop("parameters", {})
        text = question.pop("text_input")
        leaves_out = question.pop("exclude_input_in_output", False)
        assert isinstance(text, str), "text_input is a string"
        assert isinstance(leaves_out, bool), "exclude_input_in_output is true or false"
        assert not question, f"more than was asked for: {question}"
        assert all(isinstance(value, str | int | float) for value in parameters.values()), "parameters"
        FrontEnd.asked += 1
        if self.mode == "fails":
            raise ValueError("CUDA out of memory")
        if self.mode == "nameless":
            return {}
        is_certain = parameters.get("temperature") == 0 and self.mode != "wanders"
        words = text[::-1] if is_certain else f"{text[::-1]} {FrontEnd.asked}"
        completion = "" if self.mode == "silent" else words[: int(parameters.get("max_tokens", 16))]
        return {"text_output": completion if leaves_out else text + completion}

    def answer(self, status: int, reply: dict[str, object]) -> None:
        body = json.dumps(reply).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    FrontEnd.name, config = load(sys.argv[1:])
    FrontEnd.mode = str(config.get("mode"))
    ports = [item.partition("=")[2] for item in sys.argv if item.startswith("--sagemaker-port=")]
    ThreadingHTTPServer(("127.0.0.1", int(ports[0]) if ports else 8080), FrontEnd).serve_forever()


main()
