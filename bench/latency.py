"""Hook to browser: from the POST of a hook to the WebSocket message that shows it.

    python -m bench.latency [--rates 10,100,1000] [--seconds 5] [--rounds 3]

Adsum (collector, spool with fsync, Redis, hub, fold, broadcast) and a bare pipe (POST, XADD,
XREAD, WebSocket) take turns in the same run against the same Redis; the ratio is the result.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import statistics
import sys
import time

from websockets.asyncio.client import ClientConnection, connect

from bench.stage import COLLECTOR, HUB, REDIS_URL, listening, running, set_up, until

SESSIONS = 50
BARE, BARE_HUB = 48303, 48304


class Poster:
    """One keep-alive connection, written by hand so that the client is not what is measured."""

    def __init__(self, port: int, path: str, token: str) -> None:
        self._port = port
        self._head = (
            f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\n"
            f"authorization: Bearer {token}\r\ncontent-length: "
        )

    async def open(self) -> None:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)

    async def post(self, body: bytes) -> float:
        """Seconds until the answer was read."""
        start = time.perf_counter()
        self._writer.write(f"{self._head}{len(body)}\r\n\r\n".encode() + body)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        if b" 200 " not in answer.split(b"\r\n")[0]:
            raise SystemExit(f"refused: {answer!r}")
        return time.perf_counter() - start


def hook(number: int) -> bytes:
    """Even: a tool starts, and its summary names the number, so the page must show it. Odd: it ends."""
    body: dict[str, object] = {
        "session_id": f"bench-{number // 2 % SESSIONS}",
        "transcript_path": "/home/dev/.claude/projects/-home-dev-app/bench.jsonl",
        "cwd": "/home/dev/app",
        "permission_mode": "default",
        "prompt_id": f"p-{number // 2 % SESSIONS}",
        "hook_event_name": "PostToolUse" if number % 2 else "PreToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": f"echo n{number // 2 * 2}n", "description": "x" * 600},
        "tool_use_id": f"toolu_{number // 2}",
    }
    if number % 2:
        body |= {"tool_response": {"stdout": "y" * 1500, "stderr": ""}, "duration_ms": 3}
    return json.dumps(body).encode()


async def watch(socket: ClientConnection, sent: dict[int, float], took: list[float]) -> None:
    """Each number, when it is first seen in any message, or overtaken in its session."""
    async for message in socket:
        now = time.perf_counter()
        text = message if isinstance(message, str) else message.decode()
        for piece in text.split("echo n")[1:]:
            number = piece.partition("n")[0]
            if number.isdigit() and (start := sent.pop(int(number), None)) is not None:
                took.append(now - start)


async def measure(
    post: Poster, url: str, rate: int, seconds: float, first: int, *, resume: bool
) -> tuple[list[float], list[float]]:
    sent: dict[int, float] = {}
    took: list[float] = []
    answered: list[float] = []
    async with connect(url, max_size=None) as socket:
        if resume:
            await socket.send('{"epoch":null,"offset":null}')
            await socket.recv()
        await post.open()
        await asyncio.sleep(0.3)
        watcher = asyncio.create_task(watch(socket, sent, took))
        count = int(rate * seconds)
        begin = time.perf_counter()
        for index in range(count):
            pause = begin + index / rate - time.perf_counter()
            if pause > 0:
                await asyncio.sleep(pause)
            if index % 2 == 0:
                sent[first + index] = time.perf_counter()
            answered.append(await post.post(hook(first + index)))
        await asyncio.sleep(0.5)
        watcher.cancel()
    return took, answered


def quantiles(values: list[float]) -> tuple[float, float]:
    ordered = sorted(values)
    return statistics.median(ordered) * 1e3, ordered[int(len(ordered) * 0.99) - 1] * 1e3


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rates", default="10,100,1000")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        stage = await set_up(stack)
        for role, port in (("collector", BARE), ("hub", BARE_HUB)):
            command = (sys.executable, "-m", "bench.bare", role, str(port), REDIS_URL)
            stack.enter_context(running(*command))
            await until(listening(port), f"bare {role}")
        await measure_all(stage.token, options)


async def measure_all(token: str, options: argparse.Namespace) -> None:
    ours = Poster(COLLECTOR, "/api/live/hook", token)
    bare = Poster(BARE, "/", token)
    print(
        f"{'rate/s':>7} {'':6} {'p50 ms':>8} {'p99 ms':>8} {'POST p50':>9} {'POST p99':>9} {'shown':>12}"
    )
    first = 2
    for rate in map(int, options.rates.split(",")):
        sums: dict[str, list[list[float]]] = {"adsum": [[], []], "bare": [[], []]}
        for _ in range(options.rounds):
            for name, post, hub in (("adsum", ours, HUB), ("bare", bare, BARE_HUB)):
                took, answered = await measure(
                    post,
                    f"ws://127.0.0.1:{hub}/ws",
                    rate,
                    options.seconds,
                    first,
                    resume=name == "adsum",
                )
                first += 2 * int(rate * options.seconds)
                sums[name][0] += took
                sums[name][1] += answered
        figures = {
            name: (*quantiles(lists[0]), *quantiles(lists[1])) for name, lists in sums.items()
        }
        for name, row in figures.items():
            seen = f"{len(sums[name][0])}/{len(sums[name][1]) // 2}"
            print(
                f"{rate:7} {name:6} " + " ".join(f"{value:8.2f}" for value in row) + f" {seen:>12}"
            )
        ratios = [
            ours_ / bare_ for ours_, bare_ in zip(figures["adsum"], figures["bare"], strict=True)
        ]
        print(f"{rate:7} ratio  " + " ".join(f"{value:8.2f}" for value in ratios))


if __name__ == "__main__":
    asyncio.run(main())
