"""Where the hub is: told to this machine's command line, while it runs, by a file."""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Iterator

from adsum_hub.settings import HubSettings
from adsum_shared.errors import AdsumError
from adsum_shared.private_files import write_private

log = logging.getLogger(__name__)


class StateDirError(AdsumError):
    """The state directory cannot be used."""


@contextlib.contextmanager
def announced(settings: HubSettings, port: int) -> Iterator[str]:
    """hub.json tells this machine's command line where the hub is, while it runs: its URL."""
    host = settings.hub_host if settings.hub_host not in ("0.0.0.0", "::") else "127.0.0.1"  # noqa: S104 - told apart, not bound
    url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    file = settings.state_dir / "hub.json"
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        told = {"url": url, "pid": os.getpid()}
        write_private(file, json.dumps(told).encode(), durable=False)
    except OSError as error:
        raise StateDirError(
            f"The state directory {settings.state_dir} cannot be used: {error.strerror}. "
            "Choose another with ADSUM_STATE_DIR."
        ) from error
    log.info("dashboard at %s", url)
    try:
        yield url
    finally:
        # Another hub may have announced itself since; a torn file is nobody's.
        with contextlib.suppress(OSError, ValueError):
            if json.loads(file.read_text()).get("pid") == os.getpid():
                file.unlink()
