"""The options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

StateDir = Annotated[
    Path | None,
    typer.Option(help="State directory of this machine.", envvar="ADSUM_STATE_DIR"),
]
RedisUrl = Annotated[
    str | None,
    typer.Option(
        help="URL of a broker: redis://, rediss://, unix://, or of Sentinels or a cluster.",
        envvar="ADSUM_REDIS_URL",
    ),
]
HubUrl = Annotated[
    str | None,
    typer.Option(
        "--hub",
        help="URL of the hub; if left out, that of this machine, or the one it joined.",
        envvar="ADSUM_HUB_URL",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="The hub's answer, as JSON.")]
