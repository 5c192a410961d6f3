"""`adsum collector new-identity` makes a copy of a machine a machine of its own."""

from __future__ import annotations

import sys
from pathlib import Path

from adsum.config import read_settings
from adsum.outcome import CommandError
from adsum.text.saying import say


def take_new_identity(state_dir: Path | None) -> None:
    """Only while the collector is stopped: it would go on under the old one."""
    from adsum_collector.errors import StartError
    from adsum_collector.settings import CollectorSettings
    from adsum_collector.state_dir import hold_lock, make_private, renew_identity

    settings = read_settings(CollectorSettings, state_dir=state_dir)
    try:
        make_private(settings.state_dir)
        with hold_lock(settings.state_dir):
            identity = renew_identity(settings.state_dir, settings.host_label)
    except (StartError, OSError) as error:
        raise CommandError(str(error)) from error
    say(
        f"{identity.label} joins as a new machine, {identity.host_id}, once its collector is "
        "started. What no hub has had yet goes along; its sessions so far stay under the old one.",
        sys.stdout,
    )
