"""Let many users ask an endpoint at the same time; exit with 1 on any error or wrong label.

Each user sends one sentence after the other, without a pause, and expects the label of the training data.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import itertools
import sys
import time

import numpy as np

from sentences import SENTENCES
from tritonstack.client import EndpointClient, EndpointClientError
from tritonstack.client.light import LightRuntime


async def ask(
    client: EndpointClient, first: int, until: float, times: list[float]
) -> collections.Counter[str]:
    """Send requests as one user; return what went wrong."""
    wrong: collections.Counter[str] = collections.Counter()
    for text, expected in itertools.islice(itertools.cycle(SENTENCES.items()), first, None):
        started = time.monotonic()
        if started >= until:
            return wrong
        try:
            (classes,) = await client.aclassify({"TEXT": np.array([[text]], dtype=object)}, output="scores")
        except EndpointClientError as error:
            wrong[f"{type(error).__name__}: {error}"] += 1
            continue
        times.append(time.monotonic() - started)
        if classes[0].label != expected:
            wrong[f"{text!r} is {classes[0].label}, expected {expected}"] += 1
    return wrong


async def serve_all(endpoint: str, users: int, seconds: float) -> int:
    """Run all users in one event loop; print the number of requests and their times."""
    runtime = LightRuntime()
    client = EndpointClient(endpoint_name=endpoint, runtime=runtime)
    times: list[float] = []
    until = time.monotonic() + seconds
    results = await asyncio.gather(*(ask(client, user, until, times) for user in range(users)))
    await runtime.aclose()
    wrong = sum(results, collections.Counter())
    p50, p99 = np.percentile(times, [50, 99]) * 1000 if times else (float("nan"),) * 2
    latency = f"p50 {p50:.0f} ms, p99 {p99:.0f} ms"
    print(
        f"{endpoint}: {users} users, {len(times)} answers in {seconds:g} s, {latency}, {wrong.total()} errors"
    )
    for text, count in wrong.most_common(5):
        print(f"  {count} x {text}")
    return 1 if wrong or len(times) < users else 0


def main() -> int:
    """Ask every named endpoint."""
    parser = argparse.ArgumentParser(description="Ask endpoints as many users at the same time.")
    parser.add_argument("endpoints", nargs="+", metavar="ENDPOINT", help="full name, as in AWS")
    parser.add_argument("--users", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=3)
    options = parser.parse_args()
    codes = [
        asyncio.run(serve_all(endpoint, options.users, options.seconds)) for endpoint in options.endpoints
    ]
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
