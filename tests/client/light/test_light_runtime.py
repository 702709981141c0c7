"""The light transport with real sockets: results, connections, retries, credentials, concurrency."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import functools
import json
import socket
import ssl
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import boto3
import botocore.session
import pytest
from botocore.config import Config
from botocore.credentials import RefreshableCredentials
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
    NoCredentialsError,
    NoRegionError,
    ParamValidationError,
    ReadTimeoutError,
    ResponseStreamingError,
    SSLError,
)

from tests.client.light.wire import CLOSE, RESET, reply
from tests.tls import server_context, write_certificate
from tritonstack.client.errors import UnsupportedSettingError
from tritonstack.client.light import LightRuntime

ONCE = Config(retries={"total_max_attempts": 1})
CALL = {"EndpointName": "e", "Body": b"ask", "ContentType": "text/plain"}
THROTTLED = reply(
    json.dumps({"message": "slow down"}).encode(), status=400, x_amzn_ErrorType="ThrottlingException"
)


def now(runtime, **fields):
    return runtime.invoke_endpoint(**{**CALL, **fields})


def later(runtime, **fields):
    async def one():
        try:
            return await runtime.ainvoke_endpoint(**{**CALL, **fields})
        finally:
            await runtime.aclose()

    return asyncio.run(one())


@pytest.fixture(params=[now, later], ids=["threads", "asyncio"])
def call(request):
    return request.param


def repeatedly(runtime, mode, count, between=lambda: None):
    """Call several times on the same connections."""
    if mode is now:
        for _ in range(count):
            assert now(runtime)["Body"].read() == b"{}"
            between()
        return

    async def calls():
        for _ in range(count):
            assert (await runtime.ainvoke_endpoint(**CALL))["Body"].read() == b"{}"
            between()
        await runtime.aclose()

    asyncio.run(calls())


class TestResults:
    def test_a_result_equals_boto3s(self, serve, call):
        fields = {
            "x-Amzn-Invoked-Production-Variant": "blue",
            "X-Amzn-SageMaker-Custom-Attributes": "trace=1",
            "X-Amzn-SageMaker-New-Session-Id": "one; Expires=2030-01-01",
            "X-Amzn-SageMaker-Closed-Session-Id": "two",
            "x-amzn-RequestId": "id-1",
        }
        server = serve(lambda request: reply(b"answer", content_type="text/x", **fields))
        theirs = boto3.client("sagemaker-runtime", endpoint_url=server.url).invoke_endpoint(**CALL)
        ours = call(LightRuntime(endpoint_url=server.url))
        assert ours.pop("Body").read() == theirs.pop("Body").read() == b"answer"
        assert ours == theirs
        mine, other = server.requests[1], server.requests[0]
        assert (mine.target, mine.body) == (other.target, other.body)

    def test_a_chunked_reply(self, serve, call):
        wire = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
        assert call(LightRuntime(endpoint_url=serve(lambda request: wire).url))["Body"].read() == b"abcde"

    def test_large_bodies_both_ways(self, serve, call):
        body = bytes(range(256)) * 2**15
        server = serve(lambda request: reply(request.body[::-1]))
        assert call(LightRuntime(endpoint_url=server.url), Body=body)["Body"].read() == body[::-1]

    def test_all_fields_are_sent(self, serve, call):
        server = serve()
        fields = {"TargetModel": "a/b.tar.gz", "InferenceComponentName": "part", "SessionId": "NEW_SESSION"}
        call(LightRuntime(endpoint_url=server.url), **fields, CustomAttributes="a=1", TargetVariant="blue")
        headers = server.requests[0].headers
        assert server.requests[0].target == "/endpoints/e/invocations"
        assert headers["x-amzn-sagemaker-target-model"] == "a/b.tar.gz"
        assert headers["x-amzn-sagemaker-inference-component"] == "part"
        assert headers["x-amzn-sagemaker-session-id"] == "NEW_SESSION"
        assert headers["x-amzn-sagemaker-custom-attributes"] == "a=1"
        assert headers["x-amzn-sagemaker-target-variant"] == "blue"
        assert headers["content-type"] == "text/plain"

    @pytest.mark.parametrize(
        ("fields", "error"),
        [
            ({"EndpointName": 5}, ParamValidationError),
            ({"EndpointName": ["e"]}, ParamValidationError),
            ({"Unknown": "x"}, ParamValidationError),
            ({"Body": "text"}, ParamValidationError),
            ({"TargetModel": "a\r\nX-Injected: 1"}, HTTPClientError),
            ({"ContentType": "a\nb"}, HTTPClientError),
        ],
    )
    def test_invalid_call_is_rejected_before_it_is_sent(self, serve, call, fields, error):
        server = serve()
        runtime = LightRuntime(endpoint_url=server.url)
        for _ in range(2):
            with pytest.raises(error):
                call(runtime, **fields)
        assert not server.requests


class TestConnections:
    def test_one_connection_carries_many_calls(self, serve, call):
        server = serve()
        repeatedly(LightRuntime(endpoint_url=server.url), call, 20)
        assert {request.connection for request in server.requests} == {0}

    def test_a_connection_that_the_server_closed_is_replaced(self, serve, call):
        server = serve()

        def close():
            server.close_connections()
            time.sleep(0.02)

        repeatedly(LightRuntime(endpoint_url=server.url, config=ONCE), call, 3, between=close)
        assert [request.connection for request in server.requests] == [0, 1, 2]

    @pytest.mark.parametrize("tls", [False, True])
    def test_connection_closed_by_the_peer_is_replaced(self, serve, tmp_path, tls):
        bundle = write_certificate(tmp_path / "tls.pem")
        server = serve(tls=server_context(bundle) if tls else None)
        runtime = LightRuntime(endpoint_url=server.url, verify=str(bundle), config=ONCE)

        async def calls():
            for _ in range(3):
                assert (await runtime.ainvoke_endpoint(**CALL))["Body"].read() == b"{}"
                server.close_connections()
                await asyncio.sleep(0.05)
            await runtime.aclose()

        asyncio.run(calls())
        assert [request.connection for request in server.requests] == [0, 1, 2]

    def test_a_reply_may_close_its_connection(self, serve, call):
        server = serve(lambda request: reply(Connection="close"), close_after_reply=True)
        repeatedly(LightRuntime(endpoint_url=server.url, config=ONCE), call, 3)
        assert [request.connection for request in server.requests] == [0, 1, 2]

    def test_request_not_sent_on_a_closed_connection_is_retried(self, serve, monkeypatch):
        """The server closes between the check of the connection and the request."""
        server = serve()
        runtime = LightRuntime(endpoint_url=server.url, config=ONCE)
        now(runtime)
        server.close_connections()
        time.sleep(0.02)
        monkeypatch.setattr("tritonstack.client.light.connections.wait_for_read", lambda *_: False)
        idle = runtime._threads._idle[0]
        idle.shutdown(socket.SHUT_WR)  # the kernel rejects the request as after a reset
        assert now(runtime)["Body"].read() == b"{}"
        assert [request.connection for request in server.requests] == [0, 1]

    @pytest.mark.parametrize("ending", [CLOSE, RESET])
    def test_a_request_that_arrived_is_not_sent_again_without_retries(self, serve, call, ending):
        answers = iter([reply(), ending])
        server = serve(lambda request: next(answers))
        runtime = LightRuntime(endpoint_url=server.url, config=ONCE)
        if call is now:
            now(runtime)
            with pytest.raises(ConnectionClosedError):
                now(runtime)
        else:

            async def two():
                await runtime.ainvoke_endpoint(**CALL)
                with pytest.raises(ConnectionClosedError):
                    await runtime.ainvoke_endpoint(**CALL)

            asyncio.run(two())
        assert [request.connection for request in server.requests] == [0, 0]

    @pytest.mark.parametrize("wire", [b"SSH-2.0-x\r\n\r\n", b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n"])
    def test_a_reply_that_is_not_http(self, serve, call, wire):
        with pytest.raises(ConnectionClosedError):
            call(LightRuntime(endpoint_url=serve(lambda request: wire).url, config=ONCE))

    def test_truncated_body_is_not_retried(self, serve, call):
        server = serve(lambda request: reply(b"abc", Content_Length="9"), close_after_reply=True)
        with pytest.raises(ResponseStreamingError):
            call(LightRuntime(endpoint_url=server.url))
        assert len(server.requests) == 1

    def test_stalled_body_is_not_retried(self, serve, call):
        server = serve(lambda request: reply(b"abc", Content_Length="9"))
        with pytest.raises(ReadTimeoutError):
            call(LightRuntime(endpoint_url=server.url, config=Config(read_timeout=0.2)))
        assert len(server.requests) == 1

    def test_number_of_idle_connections_is_limited(self, serve):
        both = threading.Barrier(4)
        server = serve(lambda request: (both.wait(10) and reply()) or reply())
        runtime = LightRuntime(endpoint_url=server.url, config=Config(max_pool_connections=2))
        with ThreadPoolExecutor(4) as pool:
            assert len(list(pool.map(lambda _: now(runtime), range(4)))) == 4
        assert len(runtime._threads._idle) == 2
        runtime.close()
        assert not runtime._threads._idle


class TestFailures:
    def test_no_server(self, call):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{free.getsockname()[1]}"
            with pytest.raises(EndpointConnectionError, match=f"{url}/endpoints/e/invocations"):
                call(LightRuntime(endpoint_url=url, config=ONCE))

    def test_no_such_host(self, call):
        with pytest.raises(EndpointConnectionError):
            call(LightRuntime(endpoint_url="http://nowhere.invalid", config=ONCE))

    def test_no_reply_in_time(self, serve, call):
        event = threading.Event()
        server = serve(lambda request: reply() if event.wait(5) else CLOSE)
        config = Config(read_timeout=0.2, retries={"total_max_attempts": 1})
        with pytest.raises(ReadTimeoutError):
            call(LightRuntime(endpoint_url=server.url, config=config))
        event.set()

    def test_no_connection_in_time(self, call):
        """A listener whose queue is full never completes a handshake."""
        with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
            address = full.getsockname()
            waiting = [socket.socket() for _ in range(4)]
            for one in waiting:
                one.setblocking(False)
                one.connect_ex(address)
            time.sleep(0.05)
            config = Config(connect_timeout=0.3, retries={"total_max_attempts": 1})
            with pytest.raises(ConnectTimeoutError):
                call(LightRuntime(endpoint_url=f"http://127.0.0.1:{address[1]}", config=config))
            for one in waiting:
                one.close()

    @pytest.mark.parametrize("mode", ["standard", "legacy"])
    @pytest.mark.parametrize("attempts", [1, 2, 3])
    def test_the_attempts_equal_boto3s(self, serve, call, monkeypatch, mode, attempts):
        monkeypatch.setattr("time.sleep", lambda _: None)
        config = Config(retries={"total_max_attempts": attempts, "mode": mode})
        seen = []
        for create in (functools.partial(boto3.client, "sagemaker-runtime"), LightRuntime):
            server = serve(lambda request: THROTTLED)
            runtime = create(endpoint_url=server.url, config=config)
            with pytest.raises(ClientError) as caught:
                (call if create is LightRuntime else now)(runtime)
            response = caught.value.response
            retries = response["ResponseMetadata"]["RetryAttempts"]
            seen.append((len(server.requests), response["Error"]["Code"], retries))
        assert seen == [(attempts, "ThrottlingException", attempts - 1)] * 2

    @pytest.mark.parametrize("first", [THROTTLED, CLOSE, RESET, reply(status=500), reply(status=503)])
    def test_a_retry_succeeds(self, serve, call, monkeypatch, first):
        monkeypatch.setattr("time.sleep", lambda _: None)
        answers = iter([first, reply(b"second")])
        server = serve(lambda request: next(answers))
        result = call(LightRuntime(endpoint_url=server.url))
        assert result["Body"].read() == b"second"
        assert result["ResponseMetadata"]["RetryAttempts"] == 1
        assert [request.body for request in server.requests] == [b"ask", b"ask"]

    def test_successes_restore_the_right_to_retry(self, serve, monkeypatch):
        """boto3's standard mode stops retrying after many failures and resumes after successes."""
        monkeypatch.setattr("time.sleep", lambda _: None)
        failing = True
        server = serve(lambda request: THROTTLED if failing else reply())
        runtime = LightRuntime(endpoint_url=server.url, config=Config(retries={"mode": "standard"}))

        def attempts():
            before = len(server.requests)
            with pytest.raises(ClientError):
                now(runtime)
            return len(server.requests) - before

        for _ in range(60):
            attempts()
        assert attempts() == 1
        failing = False
        for _ in range(30):
            now(runtime)
        failing = True
        assert attempts() == 3


class Rotating:
    """Credentials that expire."""

    def __init__(self, lifetime_s):
        self.lifetime_s, self.given = lifetime_s, 0

    def __call__(self):
        self.given += 1
        expiry = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=self.lifetime_s)
        return {
            "access_key": f"AKID{self.given}",
            "secret_key": "secret",
            "token": f"token-{self.given}",
            "expiry_time": expiry.isoformat(),
        }

    def session(self):
        core = botocore.session.get_session()
        core._credentials = RefreshableCredentials.create_from_metadata(self(), self, "test")
        return boto3.Session(botocore_session=core)


class TestCredentials:
    def test_expired_credentials_are_refreshed(self, serve, call):
        server, rotating = serve(), Rotating(lifetime_s=-1)
        runtime = LightRuntime(endpoint_url=server.url, session=rotating.session())
        rotating.lifetime_s = 3600
        repeatedly(runtime, call, 3)
        assert rotating.given == 2
        for request in server.requests:
            assert "Credential=AKID2/" in request.headers["authorization"]
            assert request.headers["x-amz-security-token"] == "token-2"

    def test_credentials_are_refreshed_while_the_client_runs(self, serve, call):
        server, rotating = serve(), Rotating(lifetime_s=3600)
        session = rotating.session()
        runtime = LightRuntime(endpoint_url=server.url, session=session)

        def expire():
            session.get_credentials()._expiry_time = datetime.datetime.now(datetime.UTC)

        repeatedly(runtime, call, 3, between=expire)
        found = [request.headers["x-amz-security-token"] for request in server.requests]
        assert found == ["token-1", "token-2", "token-3"]

    def test_a_refresh_does_not_block_the_event_loop(self, serve):
        server, rotating = serve(), Rotating(lifetime_s=3600)
        session = rotating.session()
        threads = []
        refresh = session.get_credentials()._refresh_using
        session.get_credentials()._refresh_using = lambda: threads.append(threading.get_ident()) or refresh()
        runtime = LightRuntime(endpoint_url=server.url, session=session)

        def expire():
            session.get_credentials()._expiry_time = datetime.datetime.now(datetime.UTC)

        repeatedly(runtime, later, 3, between=expire)
        assert len(threads) == 2
        assert threading.get_ident() not in threads

    def test_no_credentials(self, serve, call, monkeypatch):
        monkeypatch.delenv("AWS_ACCESS_KEY_ID")
        monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
        server = serve()
        with pytest.raises(NoCredentialsError):
            call(LightRuntime(endpoint_url=server.url))
        assert not server.requests


class TestConfiguration:
    @pytest.mark.parametrize(
        "how", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME", "services", "argument"]
    )
    def test_the_endpoint_url(self, serve, call, monkeypatch, tmp_path, how):
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

    def test_an_endpoint_url_with_a_path(self, serve, call):
        server = serve()
        call(LightRuntime(endpoint_url=f"{server.url}/stage/"))
        assert server.requests[0].target == "/stage/endpoints/e/invocations"

    @pytest.mark.parametrize(
        ("environment", "expected"),
        [
            ({}, ("https://runtime.sagemaker.eu-west-1.amazonaws.com", "eu-west-1")),
            (
                {"AWS_USE_FIPS_ENDPOINT": "true"},
                ("https://runtime-fips.sagemaker.eu-west-1.amazonaws.com", "eu-west-1"),
            ),
            (
                {"AWS_DEFAULT_REGION": "cn-north-1"},
                ("https://runtime.sagemaker.cn-north-1.amazonaws.com.cn", "cn-north-1"),
            ),
        ],
    )
    def test_the_public_endpoints(self, monkeypatch, environment, expected):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        resolved = LightRuntime()._bridge._resolved()
        assert (resolved.base_url, resolved.signer.region) == expected
        assert resolved.signer.service == "sagemaker"

    @pytest.mark.parametrize(
        "how", ["argument", "AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "ca_bundle", "no verification"]
    )
    def test_tls_is_verified_as_boto3_does(self, serve, call, monkeypatch, tmp_path, how):
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

    def test_certificate_of_another_host_is_rejected(self, serve, call, tmp_path):
        bundle = write_certificate(tmp_path / "tls.pem", address="127.0.0.2")
        server = serve(tls=server_context(bundle))
        with pytest.raises(SSLError, match="IP address mismatch"):
            call(LightRuntime(endpoint_url=server.url, verify=str(bundle), config=ONCE))

    def test_a_client_certificate(self, serve, call, tmp_path):
        bundle = write_certificate(tmp_path / "tls.pem")
        context = server_context(bundle)
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(bundle)
        options = {"endpoint_url": serve(tls=context).url, "verify": str(bundle)}
        config = ONCE.merge(Config(client_cert=str(bundle)))
        assert call(LightRuntime(**options, config=config))["Body"].read() == b"{}"
        with pytest.raises((ConnectionClosedError, SSLError)):
            call(LightRuntime(**options, config=ONCE))

    def test_a_missing_ca_bundle(self, serve, call, tmp_path):
        server = serve(tls=server_context(write_certificate(tmp_path / "tls.pem")))
        with pytest.raises(SSLError, match=r"missing\.pem"):
            call(LightRuntime(endpoint_url=server.url, verify=str(tmp_path / "missing.pem"), config=ONCE))

    def test_no_region(self, monkeypatch):
        monkeypatch.delenv("AWS_DEFAULT_REGION")
        with pytest.raises(NoRegionError):
            LightRuntime()

    @pytest.mark.parametrize(
        ("config", "environment", "setting"),
        [
            (Config(retries={"mode": "adaptive"}), {}, "the retry mode adaptive"),
            (Config(proxies={"https": "http://proxy:3128"}), {}, "a proxy for https://runtime.sagemaker"),
            (None, {"HTTPS_PROXY": "http://proxy:3128"}, "a proxy for https://runtime.sagemaker"),
        ],
    )
    def test_unsupported_settings_are_rejected(self, monkeypatch, config, environment, setting):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(UnsupportedSettingError, match=setting) as caught:
            LightRuntime(config=config)
        assert "boto3.client" in caught.value.remedy

    def test_a_proxy_for_other_hosts_does_not_matter(self, serve, call, monkeypatch):
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        assert call(LightRuntime(endpoint_url=serve().url))["Body"].read() == b"{}"

    def test_endpoint_url_with_a_query_is_rejected(self, serve, call):
        with pytest.raises(UnsupportedSettingError, match="query"):
            call(LightRuntime(endpoint_url=f"{serve().url}/?a=1"))

    def test_unsigned_requests_are_rejected(self, serve, call):
        config = Config(signature_version=botocore.UNSIGNED)
        with pytest.raises(UnsupportedSettingError, match="signature version"):
            call(LightRuntime(endpoint_url=serve().url, config=config))


class TestConcurrency:
    def test_threads_share_one_runtime(self, serve, monkeypatch):
        """Slow and fast, failing and successful calls at once: each thread gets its own answer."""

        def answer(request):
            number = int(request.body)
            if number % 7 == 3 and request.headers.get("amz-sdk-request") is None:
                return THROTTLED if number % 2 else CLOSE
            return reply(request.body * 50, Connection="close" if number % 11 == 5 else "keep-alive")

        monkeypatch.setattr("time.sleep", lambda _: None)
        server = serve(answer)
        runtime = LightRuntime(endpoint_url=server.url)

        def one(number):
            return now(runtime, Body=b"%d" % number, InferenceId=f"id-{number}")["Body"].read()

        with ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(one, range(400)))
        assert answers == [b"%d" % number * 50 for number in range(400)]
        assert len(server.connections) < 250

    def test_coroutines_share_one_runtime(self, serve):
        together = threading.Barrier(32)

        def answer(request):
            together.wait(10)
            return reply(request.body)

        server = serve(answer)
        runtime = LightRuntime(endpoint_url=server.url)

        async def many():
            for _ in range(3):
                calls = (runtime.ainvoke_endpoint(**{**CALL, "Body": b"%d" % n}) for n in range(32))
                for number, result in enumerate(await asyncio.gather(*calls)):
                    assert result["Body"].read() == b"%d" % number
            await runtime.aclose()

        asyncio.run(many())
        assert len(server.connections) == 32

    def test_cancelled_call_leaves_no_connection(self, serve):
        event = threading.Event()
        server = serve(
            lambda request: (
                reply(request.body) if request.body == b"ask" else reply() if event.wait(5) else CLOSE
            )
        )
        runtime = LightRuntime(endpoint_url=server.url)

        async def calls():
            slow = asyncio.create_task(runtime.ainvoke_endpoint(**{**CALL, "Body": b"slow"}))
            await asyncio.sleep(0.2)
            slow.cancel()
            with pytest.raises(asyncio.CancelledError):
                await slow
            await asyncio.sleep(0.05)
            with contextlib.suppress(ConnectionResetError):
                assert server.connections[0].recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
            assert (await runtime.ainvoke_endpoint(**CALL))["Body"].read() == b"ask"
            await runtime.aclose()

        asyncio.run(calls())
        event.set()
        assert [request.connection for request in server.requests] == [0, 1]

    def test_each_event_loop_has_its_own_connections(self, serve):
        server = serve()
        runtime = LightRuntime(endpoint_url=server.url)
        for _ in range(3):
            asyncio.run(runtime.ainvoke_endpoint(**CALL))
        assert len(runtime._loops) == 1
        assert [request.connection for request in server.requests] == [0, 1, 2]
