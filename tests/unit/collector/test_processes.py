"""What a session's processes have used: the agent's own, and those of all that it runs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from adsum_collector.processes import cpu_ms
from tests.support import wait_until

BUSY = f'{sys.executable} -c "while True: pass"'
#: Works for two tenths of a second, and is over.
BRIEFLY = "import time\nwhile time.process_time() < 0.2: pass"


@contextmanager
def shell(script: str) -> Iterator[subprocess.Popen[bytes]]:
    """Its children end with it."""
    process = subprocess.Popen(
        ["sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0
    )
    try:
        yield process
    finally:
        subprocess.run(["kill", "-9", "--", f"-{process.pid}"], check=False)
        process.communicate()


@pytest.mark.parametrize("script", [f"{BUSY}; :", f"sh -c '{BUSY}; :'; :"])
async def test_what_a_command_uses_its_agent_uses(script: str) -> None:
    """Also if another command runs it."""
    with shell(script) as agent:
        await wait_until(lambda: (cpu_ms(agent.pid) or 0) > 100)


def test_what_a_command_used_that_is_over_stays_used() -> None:
    with shell(f"{sys.executable} -c '{BRIEFLY}'; echo over; read rest") as agent:
        assert agent.stdout is not None
        agent.stdout.readline()

        assert (cpu_ms(agent.pid) or 0) >= 100


def test_of_a_process_that_is_gone_nothing_is_known() -> None:
    with shell(":") as agent:
        agent.wait()

        assert cpu_ms(agent.pid) is None
