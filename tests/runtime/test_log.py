"""The log lines that explain why a server failed."""

from tritonstack.runtime import log

FAILED_LOAD = """\
W1121 12:00:00.1 2 pinned_memory_manager.cc:273] "CUDA driver version is insufficient for it"
E1121 12:00:00.2 2 server.cc:241] "CudaDriverHelper has not been initialized."
I1121 12:00:00.3 2 model_lifecycle.cc:472] "loading: bert:1"
E1121 12:00:00.4 2 model_lifecycle.cc:642] "failed to load 'bert' version 1: no model.onnx"
| Model | Version | Status                                |
| bert  | 1       | UNAVAILABLE: no model.onnx |
error: creating server: Internal - failed to load all models
"""


def test_reasons_are_the_relevant_log_lines(tmp_path):
    file = tmp_path / "log"
    file.write_text(FAILED_LOAD)
    assert log.reasons(file).splitlines() == [
        "E1121 12:00:00.4 2 model_lifecycle.cc:642] \"failed to load 'bert' version 1: no model.onnx\"",
        "| bert | 1 | UNAVAILABLE: no model.onnx |",
        "error: creating server: Internal - failed to load all models",
    ]


def test_end_of_the_log_is_shown_if_it_has_no_errors(tmp_path):
    file = tmp_path / "log"
    file.write_text("\n".join(f"line {number}" for number in range(100)))
    assert log.reasons(file, limit=2) == "line 98\nline 99"
    assert log.tail(tmp_path / "missing", 5) == ""


def test_errors_are_shortened_and_listed_once(tmp_path):
    file = tmp_path / "log"
    file.write_text("started\nValueError: bad\nready\nValueError: bad\nKeyError: " + "x" * 5000 + "\n")
    first, second = log.errors(file, limit=5).splitlines()
    assert first == "ValueError: bad"
    assert len(second) < 700
    assert second.endswith(" ...")
    file.write_text("started\nready\n")
    assert log.errors(file, limit=5) == ""
