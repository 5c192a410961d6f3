"""A collector as the chaos harness runs it: the stand-in adapter, real hooks, and a clock to set."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path

from tests.chaos.clock import follow_clock


def main() -> None:
    follow_clock(Path(os.environ["ADSUM_CHAOS_CLOCK"]))
    import msgspec
    import uvloop

    from adsum_collector.app import run_collector
    from adsum_collector.delivery.transports import HubPlace
    from adsum_collector.errors import StartError
    from adsum_collector.settings import CollectorSettings
    from adsum_shared.signals import AnySignal
    from tests.chaos.story import Told, signals_of
    from tests.collectors import StandIn, adapt_hook

    class Storied(StandIn):
        def hook(self, body: bytes, seen: int) -> list[AnySignal]:
            told = msgspec.json.decode(body, type=Told)
            return signals_of(body) if told.tape else adapt_hook(body, seen)

    url, secret = os.environ.get("ADSUM_CHAOS_HUB"), os.environ.get("ADSUM_CHAOS_SECRET", "")
    hub = HubPlace(url, secret) if url else None
    logging.basicConfig(level="INFO", format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(run_collector(CollectorSettings(), [Storied()], hub))
    except StartError as error:
        print(error)
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
