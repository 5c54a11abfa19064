"""Users of the control plane that send requests as fast as they can: many sessions in a separate process.

`python -m bench.viewers --url U --streams 6 --requests 6 /alerts /rules` reads a line from stdin: a JSON list of
cookies. It prints `ready` once the sessions have their streams. After its stdin has ended, it prints a line of
JSON: the number of answers by status. A session is a browser's: it has one cookie, and its connections for
requests are as many as those of a browser to one server. It ignores Retry-After.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress

import httpx

_TIMEOUT_S = 60.0
_OPEN_S = 120.0
_EXPECTED = (200, 429, 503)


async def _stream(client: httpx.AsyncClient, url: str, opened: asyncio.Semaphore) -> None:
    """Read a stream until the process ends. A refused or broken stream is opened again at once."""
    counted = False
    while True:
        with suppress(httpx.HTTPError):
            async with client.stream("GET", url) as answer:
                async for _ in answer.aiter_raw():
                    if not counted:
                        opened.release()
                        counted = True
        await asyncio.sleep(0.1)


async def _request(client: httpx.AsyncClient, urls: Sequence[str], answers: Counter[str]) -> None:
    """Send requests without a pause, each to a random address."""
    while True:
        try:
            answer = await client.get(random.choice(urls))  # noqa: S311 - only for a random order
            answers[str(answer.status_code)] += 1
            if answer.status_code not in _EXPECTED:
                print(f"{answer.status_code} {answer.url}: {answer.text[:200]}", file=sys.stderr)
        except httpx.HTTPError as error:
            answers[type(error).__name__] += 1


async def _run(options: argparse.Namespace, cookies: Sequence[str]) -> Counter[str]:
    answers: Counter[str] = Counter()
    opened = asyncio.Semaphore(0)
    async with AsyncExitStack() as stack:
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        limits = httpx.Limits(max_connections=options.streams + options.requests)
        running = []
        for cookie in cookies:
            client = httpx.AsyncClient(headers={"Cookie": cookie}, timeout=_TIMEOUT_S, limits=limits, trust_env=False)
            await stack.enter_async_context(client)
            stream = f"{options.url}/alerts/stream"
            running += [tasks.create_task(_stream(client, stream, opened)) for _ in range(options.streams)]
            urls = [options.url + path for path in options.paths]
            running += [tasks.create_task(_request(client, urls, answers)) for _ in range(options.requests)]
        async with asyncio.timeout(_OPEN_S):
            for _ in range(options.streams * len(cookies)):
                await opened.acquire()
        answers.clear()
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)
        found = answers.copy()
        for task in running:
            task.cancel()
    return found


def main() -> int:
    """Run the sessions until stdin ends."""
    parser = argparse.ArgumentParser(prog="python -m bench.viewers", description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--streams", type=int, required=True)
    parser.add_argument("--requests", type=int, required=True)
    parser.add_argument("paths", nargs="+")
    options = parser.parse_args()
    print(json.dumps(asyncio.run(_run(options, json.loads(sys.stdin.readline())))), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
