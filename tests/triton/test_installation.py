"""What an installation gives a server: its flags, its variables, its paths inside a sandbox."""

from dataclasses import replace
from pathlib import Path

from tritonstack.triton import TritonInstallation

HOME = Path("/somewhere/server")
EMBEDDED = TritonInstallation(
    kind="embedded",
    root=HOME,
    executable=HOME / "bin/tritonserver",
    version="2.51.0",
    release="24.10",
    backends=("ensemble", "python"),
    backend_directory=HOME / "backends",
    cache_directory=HOME / "caches",
    path=(HOME / "python/bin",),
    library_path=(HOME / "lib", HOME / "libs"),
)
CONTAINER = replace(EMBEDDED, kind="container")


def test_programs_of_the_embedded_server_come_first():
    variables = EMBEDDED.surround({"PATH": "/model/bin", "LD_LIBRARY_PATH": "/model/lib", "HOME": "/root"})
    assert variables == {
        "PATH": "/somewhere/server/python/bin:/usr/local/bin:/usr/bin:/bin:/model/bin",
        "LD_LIBRARY_PATH": "/somewhere/server/lib:/somewhere/server/libs:/model/lib",
        "HOME": "/root",
        "LANG": "C.UTF-8",
    }


def test_a_containers_server_keeps_the_images_variables_but_no_credentials(monkeypatch):
    monkeypatch.setenv("NVIDIA_TRITON_SERVER_VERSION", "24.10")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("OVERRIDDEN", "by the image")
    variables = CONTAINER.surround({"OVERRIDDEN": "by the model", "AWS_REGION": "eu-west-1"})
    assert variables["NVIDIA_TRITON_SERVER_VERSION"] == "24.10"
    assert variables["OVERRIDDEN"] == "by the model"
    assert variables["AWS_REGION"] == "eu-west-1"
    assert "AWS_SECRET_ACCESS_KEY" not in variables
    assert CONTAINER.arguments() == ()


def test_missing_backend_is_reported_with_the_available_ones():
    assert EMBEDDED.why_no_backend("python") is None
    assert "ensemble, python" in (EMBEDDED.why_no_backend("tensorrt") or "")
