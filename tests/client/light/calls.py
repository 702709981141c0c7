"""Calls of the light transport, from threads and from asyncio."""

from __future__ import annotations

import asyncio
import json

from botocore.config import Config

from tests.client.light.wire import reply

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


def repeatedly(runtime, mode, count, between=lambda: None, rest_s=0):
    """Call several times on the same connections; an event loop runs on in the rests."""
    if mode is now:
        for _ in range(count):
            assert now(runtime)["Body"].read() == b"{}"
            between()
        return

    async def calls():
        for _ in range(count):
            assert (await runtime.ainvoke_endpoint(**CALL))["Body"].read() == b"{}"
            between()
            await asyncio.sleep(rest_s)
        await runtime.aclose()

    asyncio.run(calls())
