"""A hub as the chaos harness runs it: the real one, whose fold leaves a tape."""

from __future__ import annotations

import asyncio
import logging

import uvloop

from adsum_hub.app import run_hub
from adsum_hub.settings import HubSettings
from tests.chaos import tape


def main() -> None:
    logging.basicConfig(level="INFO", format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    tape.install()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run_hub(HubSettings()))


if __name__ == "__main__":
    main()
