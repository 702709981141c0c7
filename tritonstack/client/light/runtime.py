"""A replacement of boto3's `sagemaker-runtime` client for InvokeEndpoint, with less CPU per call."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ParamValidationError

from tritonstack.base.http import HttpReply
from tritonstack.client.light.boto3_bridge import Boto3Bridge, Boto3Settings
from tritonstack.client.light.connections import (
    BrokenBodyError,
    LoopConnections,
    RequestTemplate,
    ThreadConnections,
)

_TEMPLATES = 1024


class LightRuntime:
    """InvokeEndpoint over pooled connections, with boto3's configuration, credentials and errors.

    The arguments are those of `boto3.client`; credentials come from `session`, or boto3's default session.
    boto3 resolves the endpoint URL and the signing region. It also finishes each call whose first attempt
    fails: it raises the error, or retries as its configuration says. Threads and event loops may share one
    object.
    """

    def __init__(
        self,
        *,
        session: boto3.Session | None = None,
        region_name: str | None = None,
        endpoint_url: str | None = None,
        verify: bool | str | None = None,
        config: Config | None = None,
    ) -> None:
        session = session or boto3.DEFAULT_SESSION or boto3.Session()
        self._bridge = Boto3Bridge(Boto3Settings(session, region_name, endpoint_url, verify, config))
        self._template = lru_cache(_TEMPLATES)(self._new_template)
        self._lock = threading.Lock()
        self._threads: ThreadConnections | None = None
        self._loops: dict[asyncio.AbstractEventLoop, LoopConnections] = {}

    def invoke_endpoint(self, **call: Any) -> Mapping[str, Any]:
        """Call InvokeEndpoint with boto3's parameters and result; `Body` must be bytes."""
        url, message = self._request(call)
        try:
            reply = self._thread_connections().exchange(message, url=url)
        except BrokenBodyError as broken:
            raise broken.error from broken
        except BotoCoreError as failed:
            return self._bridge.finish(call, failed, url=url)
        return self._result(call, reply, url)

    def invoke_endpoint_with_response_stream(self, **call: Any) -> Mapping[str, Any]:
        """Call boto3: a stream lasts so long that the CPU of its beginning does not count."""
        return self._bridge.stream(call)

    async def ainvoke_endpoint(self, **call: Any) -> Mapping[str, Any]:
        """Like `invoke_endpoint`, on connections of the running event loop.

        A thread refreshes credentials and finishes failed calls, because botocore blocks while it does.
        """
        url, message = await self._arequest(call)
        try:
            reply = await self._loop_connections().exchange(message, url=url)
        except BrokenBodyError as broken:
            raise broken.error from broken
        except BotoCoreError as failed:
            return await asyncio.to_thread(self._bridge.finish, call, failed, url=url)
        if reply.status >= 300:
            return await asyncio.to_thread(self._result, call, reply, url)
        return self._result(call, reply, url)

    async def aexchange(self, **call: Any) -> HttpReply:
        """Send one request and return the reply as it is, whatever its status: boto3 does not finish it.

        Load tests use this: retries would hide errors, and boto3 takes longer to parse an error than most
        models take to answer. Raises botocore's errors of connections.
        """
        url, message = await self._arequest(call)
        try:
            return await self._loop_connections().exchange(message, url=url)
        except BrokenBodyError as broken:
            raise broken.error from broken

    def close(self) -> None:
        """Close the unused connections of threads."""
        if self._threads is not None:
            self._threads.close()
        self._bridge.close()

    async def aclose(self) -> None:
        """Close the unused connections of the running event loop."""
        connections = self._loops.pop(asyncio.get_running_loop(), None)
        if connections is not None:
            await connections.close()

    async def _arequest(self, call: Mapping[str, Any]) -> tuple[str, bytes]:
        blocking = self._bridge.may_block()
        return await asyncio.to_thread(self._request, call) if blocking else self._request(call)

    def _request(self, call: Mapping[str, Any]) -> tuple[str, bytes]:
        """Return the URL and the signed message of a call."""
        body = call.get("Body", b"")
        if not isinstance(body, bytes | bytearray):
            report = f"Invalid type for parameter Body, type: {type(body)}, valid types: {bytes}, {bytearray}"
            raise ParamValidationError(report=report)
        fields = tuple((name, value) for name, value in call.items() if name != "Body")
        try:
            template = self._template(fields)
        except TypeError:  # a value cannot be hashed, so it is not a string: botocore reports it
            template = self._new_template(fields)
        return template.url, self._bridge.message(template, body)

    def _new_template(self, fields: tuple[tuple[str, Any], ...]) -> RequestTemplate:
        return self._bridge.template(dict(fields))

    def _result(self, call: Mapping[str, Any], reply: HttpReply, url: str) -> Mapping[str, Any]:
        if reply.status >= 300:
            return self._bridge.finish(call, reply, url=url)
        return self._bridge.result(reply)

    def _thread_connections(self) -> ThreadConnections:
        if self._threads is None:
            with self._lock:
                self._threads = self._threads or ThreadConnections(self._bridge.route())
        return self._threads

    def _loop_connections(self) -> LoopConnections:
        loop = asyncio.get_running_loop()
        connections = self._loops.get(loop)
        if connections is None:
            for closed in [other for other in list(self._loops) if other.is_closed()]:
                self._loops.pop(closed, None)
            connections = self._loops[loop] = LoopConnections(self._bridge.route())
        return connections
