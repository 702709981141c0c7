"""Java snippets compile and send the body as it is. Classes with the AWS SDK's methods stand in for it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.operate.invoke.test_snippet import HOSTILE
from tritonstack.operate.invoke.snippet import body_of
from tritonstack.operate.invoke.snippet_texts import SnippetRequest, as_java

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(shutil.which("javac") is None, reason="no Java compiler is installed"),
]
STAND_INS = {
    "software/amazon/awssdk/core/SdkBytes.java": """
package software.amazon.awssdk.core;
import java.nio.charset.StandardCharsets;
public record SdkBytes(byte[] bytes) {
    public static SdkBytes fromUtf8String(String text) {
        return new SdkBytes(text.getBytes(StandardCharsets.UTF_8));
    }
    public static SdkBytes fromByteArray(byte[] bytes) { return new SdkBytes(bytes); }
    public String asUtf8String() { return new String(bytes, StandardCharsets.UTF_8); }
    public byte[] asByteArray() { return bytes; }
}
""",
    "software/amazon/awssdk/regions/Region.java": """
package software.amazon.awssdk.regions;
public record Region(String name) {
    public static Region of(String name) { return new Region(name); }
}
""",
    "software/amazon/awssdk/services/sagemakerruntime/SageMakerRuntimeClient.java": """
package software.amazon.awssdk.services.sagemakerruntime;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.function.Consumer;
import software.amazon.awssdk.core.SdkBytes;
import software.amazon.awssdk.regions.Region;
public class SageMakerRuntimeClient implements AutoCloseable {
    private String seen = "";
    public class Builder {
        public Builder region(Region region) { seen += region.name() + "\\n"; return this; }
        public Builder endpointOverride(URI uri) { seen += uri + "\\n"; return this; }
        public SageMakerRuntimeClient build() { return SageMakerRuntimeClient.this; }
    }
    public class Request {
        public SdkBytes sent;
        private Request add(String value) { seen += value + "\\n"; return this; }
        public Request endpointName(String name) { return add(name); }
        public Request targetModel(String name) { return add(name); }
        public Request targetVariant(String name) { return add(name); }
        public Request inferenceComponentName(String name) { return add(name); }
        public Request contentType(String name) { return add(name); }
        public Request body(SdkBytes bytes) { sent = bytes; return this; }
    }
    public record Answer(SdkBytes body, String contentType) {}
    public static Builder builder() { return new SageMakerRuntimeClient().new Builder(); }
    public Answer invokeEndpoint(Consumer<Request> fill) {
        var request = new Request();
        fill.accept(request);
        try {
            Files.write(Path.of("sent"), request.sent.asByteArray());
            Files.writeString(Path.of("seen"), seen);
        } catch (java.io.IOException error) {
            throw new RuntimeException(error);
        }
        return new Answer(SdkBytes.fromUtf8String("answered"), "application/json");
    }
    public void close() {}
}
""",
}


@pytest.mark.parametrize(("inline", "binary_answer"), [(True, False), (False, True)])
def test_java_sends_the_body(tmp_path: Path, *, inline: bool, binary_answer: bool) -> None:
    body, content_type = body_of({"TEXT": np.array([[HOSTILE]], object)}, {}, binary_answer=binary_answer)
    (tmp_path / "a request").write_bytes(body)
    text = as_java(
        SnippetRequest(
            endpoint="tritonstack-dev-search",
            region="eu-west-1",
            url="https://example.com",
            own_url=True,
            model="minilm",
            target_model="minilm/1/model.tar.gz",
            variant="main",
            component="search-component",
            names_path="/names",
            targets_command="tritonstack targets dev search",
            inputs={},
            parameters={},
            body=body,
            content_type=content_type,
            body_file="a request",
            body_command="tritonstack snippet dev search --body 'a request'",
            inline=inline,
            binary_answer=binary_answer,
        )
    )
    for name, content in {**STAND_INS, "Invoke.java": text}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content, encoding="utf-8")
    compile_it = ["javac", "-encoding", "UTF-8", "-sourcepath", ".", "Invoke.java"]
    subprocess.run(compile_it, cwd=tmp_path, check=True)
    done = subprocess.run(
        ["java", "-cp", ".", "Invoke"], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert (tmp_path / "sent").read_bytes() == body
    assert (tmp_path / "seen").read_text().splitlines() == [
        "eu-west-1",
        "https://example.com",
        "tritonstack-dev-search",
        "minilm/1/model.tar.gz",
        "main",
        "search-component",
        content_type,
    ]
    if binary_answer:
        assert done.stdout == "application/json\n"
        assert (tmp_path / "answer.bin").read_bytes() == b"answered"
    else:
        assert done.stdout == "answered\n"
