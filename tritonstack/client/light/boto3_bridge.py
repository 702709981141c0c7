"""Take from a boto3 client what the light transport needs, and let boto3 finish the calls that fail."""

from __future__ import annotations

import io
import os
import re
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, cast
from urllib.parse import quote, urlsplit

import boto3
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.config import Config
from botocore.exceptions import BotoCoreError, HTTPClientError, NoCredentialsError
from botocore.httpsession import create_urllib3_context, get_cert_path
from botocore.retries.quota import RetryQuota
from botocore.serialize import create_serializer
from botocore.utils import get_environ_proxies, normalize_url_path

from tritonstack.base.http import HttpReply
from tritonstack.client.errors import UnsupportedSettingError
from tritonstack.client.light.connections import FrozenCredentials, RequestSigner, RequestTemplate, Route

OPERATION = "InvokeEndpoint"
EVENT = f"sagemaker-runtime.{OPERATION}"
MAX_IDLE = 256
"""Unused connections to keep, unless the Config sets max_pool_connections."""
_SCOPE = re.compile(r"AWS4-HMAC-SHA256 Credential=[^/]+/[0-9]{8}/([^/]+)/([^/]+)/aws4_request,")
_ANY_CALL = {"EndpointName": "any", "Body": b""}
_ANY_PATH = "/endpoints/any/invocations"
_PORTS = {"http": 80, "https": 443}
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


@dataclass(frozen=True)
class Boto3Settings:
    """The settings of a boto3 client; each means what it means to `boto3.client`."""

    session: boto3.Session
    region_name: str | None
    endpoint_url: str | None
    verify: bool | str | None
    config: Config | None


@dataclass(frozen=True)
class _Prepared:
    """What boto3 resolves for all requests of a client."""

    base_url: str
    user_agent: str
    signer: RequestSigner


class _Raw(io.BytesIO):
    """A body as AWSResponse reads it."""

    def stream(self) -> Iterator[bytes]:
        """Yield the body."""
        yield self.read()


class Boto3Bridge:
    """A boto3 client that prepares requests and finishes failed calls. Threads may share it."""

    def __init__(self, settings: Boto3Settings) -> None:
        self._settings = settings
        config = Config(max_pool_connections=MAX_IDLE).merge(settings.config or Config())
        self._client = settings.session.client(
            "sagemaker-runtime",
            region_name=settings.region_name,
            endpoint_url=settings.endpoint_url,
            verify=settings.verify,
            config=config,
        )
        self._config = self._client.meta.config
        _reject_unsupported(self._config, self._client.meta.endpoint_url)
        model = self._client.meta.service_model
        self._operation = model.operation_model(OPERATION)
        self._serializer = create_serializer(
            model.resolved_protocol, include_validation=self._config.parameter_validation
        )
        self._output_headers = {
            name: shape.serialization["name"].lower()
            for name, shape in self._operation.output_shape.members.items()
            if shape.serialization.get("location") == "header"
        }
        self._first = threading.local()
        self._client.meta.events.register_first(f"before-send.{EVENT}", self._answer_first_attempt)
        self._prepared: _Prepared | None = None
        self._uncredited = 0

    def route(self) -> Route:
        """Return how to reach the service; requests must have been prepared before."""
        parts, config = urlsplit(self._resolved().base_url), self._config
        return Route(
            host=parts.hostname or "",
            port=parts.port or _PORTS[parts.scheme],
            tls=cache(self._tls_context) if parts.scheme == "https" else None,
            connect_timeout=config.connect_timeout,
            read_timeout=config.read_timeout,
            max_idle=config.max_pool_connections,
            keep_alive_probes=config.tcp_keepalive,
        )

    def stream(self, call: Mapping[str, Any]) -> Mapping[str, Any]:
        """Call InvokeEndpointWithResponseStream with boto3."""
        return cast("Mapping[str, Any]", self._client.invoke_endpoint_with_response_stream(**call))

    def may_block(self) -> bool:
        """Return whether `message` may wait for files, other programs or the network."""
        if self._prepared is None:
            return True
        refresh_needed = getattr(self._settings.session.get_credentials(), "refresh_needed", None)
        return refresh_needed is not None and bool(refresh_needed())

    def template(self, addressing: Mapping[str, Any]) -> RequestTemplate:
        """Return the request for the parameters of InvokeEndpoint other than Body."""
        prepared = self._resolved()
        serialized = self._serializer.serialize_to_request({**addressing, "Body": b""}, self._operation)
        url = prepared.base_url + serialized["url_path"]
        parts = urlsplit(url)
        headers = {name.lower(): _checked_header(value) for name, value in serialized["headers"].items()}
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        port = "" if parts.port in (None, _PORTS[parts.scheme]) else f":{parts.port}"
        return RequestTemplate(
            url=url,
            target=parts.path,
            canonical_path=quote(normalize_url_path(parts.path), safe="/~"),
            headers={**headers, "host": f"{host}{port}"},
            unsigned_headers={"user-agent": prepared.user_agent},
        )

    def message(self, template: RequestTemplate, body: bytes | bytearray) -> bytes:
        """Return the signed request; botocore refreshes credentials that are about to expire."""
        credentials = self._settings.session.get_credentials()
        if credentials is None:
            raise NoCredentialsError
        by: FrozenCredentials = credentials.get_frozen_credentials()
        return self._resolved().signer.message(template, body=body, by=by)

    def result(self, reply: HttpReply) -> dict[str, Any]:
        """Return a successful reply in the form of boto3's `invoke_endpoint`."""
        if self._uncredited:
            self._credit()
        headers = reply.headers
        fields = {name: headers[key] for name, key in self._output_headers.items() if key in headers}
        metadata = {"HTTPStatusCode": reply.status, "HTTPHeaders": headers, "RetryAttempts": 0}
        if "x-amzn-requestid" in headers:
            metadata["RequestId"] = headers["x-amzn-requestid"]
        return {"ResponseMetadata": metadata, **fields, "Body": io.BytesIO(reply.body)}

    def finish(
        self, call: Mapping[str, Any], outcome: HttpReply | BotoCoreError, *, url: str
    ) -> dict[str, Any]:
        """Let boto3 finish a call whose first attempt ended with `outcome`: retry it or raise its error."""

        def answer(_: AWSPreparedRequest) -> AWSResponse:
            if isinstance(outcome, BotoCoreError):
                raise outcome
            return AWSResponse(url, outcome.status, outcome.headers, _Raw(outcome.body))

        self._uncredited = RetryQuota.INITIAL_CAPACITY
        result = self._invoke(call, answer)
        return {**result, "Body": io.BytesIO(result["Body"].read())}

    def close(self) -> None:
        """Close boto3's connections."""
        self._client.close()

    def _credit(self) -> None:
        """Tell boto3 of a success: in its standard mode, failures use up and successes restore retries."""
        self._uncredited -= 1
        self._client.meta.events.emit(
            f"after-call.{EVENT}",
            http_response=AWSResponse("", 200, {}, _Raw()),
            parsed={},
            model=self._operation,
            context={},
        )

    def _invoke(
        self, call: Mapping[str, Any], first: Callable[[AWSPreparedRequest], AWSResponse]
    ) -> Mapping[str, Any]:
        """Call boto3, with the reply to its first attempt from `first` instead of the network."""
        self._first.answer = first
        try:
            result: Mapping[str, Any] = self._client.invoke_endpoint(**call)
        finally:
            self._first.answer = None
        return result

    def _answer_first_attempt(self, request: AWSPreparedRequest, **_: object) -> AWSResponse | None:
        """Handle botocore's event before it sends; other attempts return None and are sent."""
        answer, self._first.answer = self._first.answer, None
        return None if answer is None else answer(request)

    def _resolved(self) -> _Prepared:
        """Return what boto3 resolves; the first call lets boto3 prepare and sign a request."""
        if self._prepared is None:
            requests: list[AWSPreparedRequest] = []

            def keep(request: AWSPreparedRequest) -> AWSResponse:
                requests.append(request)
                return AWSResponse(request.url, 200, {}, _Raw())

            self._invoke(_ANY_CALL, keep)
            request = requests[0]
            scope = _SCOPE.match(_text(request.headers.get("Authorization", "")))
            if scope is None:
                raise UnsupportedSettingError("a signature version other than 4")
            if not request.url.endswith(_ANY_PATH):
                raise UnsupportedSettingError(f"an endpoint URL with a query, {request.url}")
            self._prepared = _Prepared(
                base_url=request.url.removesuffix(_ANY_PATH),
                user_agent=_text(request.headers["User-Agent"]),
                signer=RequestSigner(region=scope[1], service=scope[2]),
            )
        return self._prepared

    def _tls_context(self) -> ssl.SSLContext:
        """Return TLS settings that verify as boto3 does."""
        verify: bool | str | None = self.verify
        certificate = self._config.client_cert
        try:
            context: ssl.SSLContext = create_urllib3_context()
            context.set_alpn_protocols(["http/1.1"])
            if verify:
                context.verify_mode = ssl.CERT_REQUIRED
                context.check_hostname = True
                context.load_verify_locations(get_cert_path(verify))
            else:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            if certificate:
                context.load_cert_chain(*((certificate,) if isinstance(certificate, str) else certificate))
        except OSError as raised:
            raise ssl.SSLError(
                f"{raised} (CA bundle: {verify}, client certificate: {certificate})"
            ) from raised
        return context

    @property
    def verify(self) -> bool | str:
        """What botocore verifies servers with: the argument, its configuration, or REQUESTS_CA_BUNDLE."""
        setting = self._settings.verify
        if setting is None:
            # boto3 keeps its botocore session to itself; a client's configuration has no CA bundle.
            setting = self._settings.session._session.get_config_variable("ca_bundle")
        return os.environ.get("REQUESTS_CA_BUNDLE") or True if setting is None else setting


def _checked_header(value: str) -> str:
    """Return a header's value; a control character could end the header."""
    if _CONTROL.search(value):
        raise HTTPClientError(error=ValueError(f"Invalid header value {value!r}"))
    return value


def _reject_unsupported(config: Config, url: str) -> None:
    if config.retries.get("mode") == "adaptive":
        raise UnsupportedSettingError("the retry mode adaptive")
    proxies = get_environ_proxies(url) if config.proxies is None else config.proxies
    if proxies.get(urlsplit(url).scheme):
        raise UnsupportedSettingError(f"a proxy for {url}")


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
