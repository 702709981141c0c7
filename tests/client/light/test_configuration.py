"""The light transport has the endpoints, TLS settings, and limits of its configuration."""

import ssl

import boto3
import botocore.session
import pytest
from botocore.config import Config
from botocore.exceptions import (
    ConnectionClosedError,
    SSLError,
)

from tests.client.light.calls import ONCE, repeatedly
from tests.tls import server_context, write_certificate
from tritonstack.client.errors import UnsupportedSettingError
from tritonstack.client.light import LightRuntime


@pytest.mark.parametrize(
    "how", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME", "services", "argument"]
)
def test_the_endpoint_url(serve, call, monkeypatch, tmp_path, how):
    server, options = serve(), {}
    if how == "argument":
        options = {"endpoint_url": server.url}
    elif how == "services":
        (tmp_path / "config").write_text(
            "[default]\nservices = local\n[services local]\n"
            f"sagemaker_runtime =\n  endpoint_url = {server.url}\n"
        )
    else:
        monkeypatch.setenv(how, server.url)
    call(LightRuntime(**options))
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "how", ["argument", "AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "ca_bundle", "no verification"]
)
def test_tls_is_verified_as_boto3_does(serve, call, monkeypatch, tmp_path, how):
    bundle = write_certificate(tmp_path / "tls.pem")
    server = serve(tls=server_context(bundle))
    options = {"endpoint_url": server.url, "config": ONCE}
    with pytest.raises(SSLError, match="CERTIFICATE_VERIFY_FAILED"):
        call(LightRuntime(**options))
    if how == "argument":
        options["verify"] = str(bundle)
    elif how == "no verification":
        options["verify"] = False
    elif how == "ca_bundle":
        (tmp_path / "config").write_text(f"[default]\nca_bundle = {bundle}\n")
    else:
        monkeypatch.setenv(how, str(bundle))
    theirs = boto3.Session().client("sagemaker-runtime", **options)
    runtime = LightRuntime(**options)
    assert runtime._bridge.verify == theirs._endpoint.http_session._verify
    repeatedly(runtime, call, 3)
    assert {request.connection for request in server.requests} == {0}


def test_certificate_of_another_host_is_rejected(serve, call, tmp_path):
    bundle = write_certificate(tmp_path / "tls.pem", address="127.0.0.2")
    server = serve(tls=server_context(bundle))
    with pytest.raises(SSLError, match="IP address mismatch"):
        call(LightRuntime(endpoint_url=server.url, verify=str(bundle), config=ONCE))


def test_a_client_certificate(serve, call, tmp_path):
    bundle = write_certificate(tmp_path / "tls.pem")
    context = server_context(bundle)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(bundle)
    options = {"endpoint_url": serve(tls=context).url, "verify": str(bundle)}
    config = ONCE.merge(Config(client_cert=str(bundle)))
    assert call(LightRuntime(**options, config=config))["Body"].read() == b"{}"
    with pytest.raises((ConnectionClosedError, SSLError)):
        call(LightRuntime(**options, config=ONCE))


@pytest.mark.parametrize(
    ("config", "environment", "setting"),
    [
        (Config(retries={"mode": "adaptive"}), {}, "adaptive"),
        (Config(proxies={"https": "http://proxy:3128"}), {}, "proxy"),
        (None, {"HTTPS_PROXY": "http://proxy:3128"}, "proxy"),
    ],
)
def test_unsupported_settings_are_rejected(monkeypatch, config, environment, setting):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UnsupportedSettingError, match=setting) as caught:
        LightRuntime(config=config)
    assert "boto3.client" in caught.value.remedy


def test_a_proxy_for_other_hosts_does_not_matter(serve, call, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    assert call(LightRuntime(endpoint_url=serve().url))["Body"].read() == b"{}"


def test_endpoint_url_with_a_query_is_rejected(serve, call):
    with pytest.raises(UnsupportedSettingError, match="query"):
        call(LightRuntime(endpoint_url=f"{serve().url}/?a=1"))


def test_unsigned_requests_are_rejected(serve, call):
    config = Config(signature_version=botocore.UNSIGNED)
    with pytest.raises(UnsupportedSettingError, match="signature"):
        call(LightRuntime(endpoint_url=serve().url, config=config))
