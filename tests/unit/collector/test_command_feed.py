"""What comes for this machine: one command that fails by a fault of ours ends no other."""

import time
from types import SimpleNamespace
from typing import Any, cast

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from adsum_collector.control.feed import CommandFeed
from adsum_collector.control.remote import RemoteControl
from adsum_collector.intake import ReportIntake
from adsum_shared.commands import Command, key_id, signed
from adsum_shared.host_keys import FoundCommand

KEY = Ed25519PrivateKey.generate()


class Faulty:
    """A control that cannot do the first that it is given."""

    def __init__(self) -> None:
        public = KEY.public_key()
        self.consent = SimpleNamespace(keys={key_id(public): public})
        self.obeyed: list[str] = []
        self.outcomes: list[tuple[str, str, str | None]] = []

    async def obey(self, command: Command) -> None:
        self.obeyed.append(command.id)
        if len(self.obeyed) == 1:
            raise RuntimeError("what nobody thought of")

    def report(self, command: Command, outcome: str, reason: str | None = None) -> None:
        self.outcomes.append((command.id, outcome, reason))


async def test_a_command_that_fails_ends_no_other() -> None:
    control = Faulty()
    feed = CommandFeed(
        cast("Any", None),
        SimpleNamespace(host_id="h"),
        cast("RemoteControl", control),
        cast("ReportIntake", None),
    )
    now = int(time.time() * 1000)
    for name in ("c1", "c2"):
        command = Command(id=name, host_id="h", session_id="s", verb="prompt", by="ann", text="x")
        await feed._take("h", FoundCommand(f"{now}-0", signed(command, KEY)), now)

    assert control.obeyed == ["c1", "c2"]
    assert control.outcomes == [("c1", "refused", "an unexpected fault (RuntimeError)")]
