"""The log lines that explain why a server failed."""

from tritonstack.runtime import log

FAILED_LOAD = """\
W1121 12:00:00.1 2 pinned_memory_manager.cc:273] "CUDA driver version is insufficient for it"
E1121 12:00:00.2 2 server.cc:241] "CudaDriverHelper has not been initialized."
I1121 12:00:00.3 2 model_lifecycle.cc:472] "loading: bert:1"
E1121 12:00:00.4 2 model_lifecycle.cc:642] "failed to load"
E1121 12:00:00.4 2 model_lifecycle.cc:642] "failed to load"
| bert  | 1       | UNAVAILABLE: no model.onnx |
error: creating server
"""


def test_reasons_are_the_relevant_lines_or_the_end(tmp_path):
    file = tmp_path / "log"
    file.write_text(f"{FAILED_LOAD}KeyError: {'x' * 5000}\n")
    *lines, last = log.reasons(file).splitlines()
    assert [line.split()[0] for line in lines] == ["E1121", "|", "error:"]
    assert len(last) < 700
    file.write_text("".join(f"line {number}\n" for number in range(100)))
    assert log.reasons(file, limit=2) == "line 98\nline 99"
    assert log.errors(file, limit=5) == log.tail(tmp_path / "missing", 5) == ""
