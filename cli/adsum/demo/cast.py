"""Who plays in the demo: six machines, and the forty sessions on them."""

from __future__ import annotations

from typing import Literal, NamedTuple

MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR

OPUS, SONNET, HAIKU = (
    "claude-opus-4-5-20251101",
    "claude-sonnet-4-5-20250929",
    "claude-haiku-4-5-20251001",
)
MODELS = (OPUS, SONNET, SONNET, OPUS, HAIKU)
AGENT_VERSION = "2.1.330"

Line = Literal["steady", "train", "away"]


class Machine(NamedTuple):
    """skew_ms: how far its clock is ahead. line: how it is connected. reads: its history, still.

    five_hours, week: how fast its account's limits fill up, in per cent of the whole.
    """

    label: str
    home: str
    five_hours: float
    week: float
    skew_ms: int = 0
    line: Line = "steady"
    reads: bool = False
    hooks: bool = True


MACHINES = (
    Machine("atlas", "/home/dev", 88, 61),
    Machine("birch", "/Users/dev", 46, 34),
    Machine("buildbox-2", "/srv/agents", 30, 72, reads=True),
    Machine("harbor-vm", "/home/ubuntu", 64, 18, skew_ms=43 * MINUTE),
    Machine("cedar", "/Users/dev", 22, 9, line="train"),
    Machine("dune", "/home/dev", 12, 5, line="away", hooks=False),
)


class Role(NamedTuple):
    """One session. plot: what happens to it, again and again."""

    machine: str
    plot: str
    project: str


ROLES = tuple(
    Role(machine, plot, project)
    for machine, plot, project in (
        line.split()
        for line in """
            atlas guarded parcel-api
            atlas curious tidewater-web
            atlas engineer ledgerline
            atlas engineer lantern-game
            atlas captain parcel-api
            atlas serving tidewater-web
            atlas finisher orchard-pipeline
            atlas packing ledgerline
            atlas engineer parcel-api
            atlas spending orchard-pipeline
            atlas writer field-guide
            birch planner ledgerline
            birch engineer tidewater-web
            birch guarded greenhouse-infra
            birch fresh kiln-firmware
            birch captain lantern-game
            birch hasty tidewater-web
            birch researcher field-guide
            birch finisher greenhouse-infra
            birch suspended kiln-firmware
            buildbox-2 unlucky parcel-api
            buildbox-2 red ledgerline
            buildbox-2 watching orchard-pipeline
            buildbox-2 engineer ledgerline
            buildbox-2 engineer orchard-pipeline
            buildbox-2 captain ledgerline
            buildbox-2 leaver greenhouse-infra
            harbor-vm silent greenhouse-infra
            harbor-vm connecting parcel-api
            harbor-vm scheduled orchard-pipeline
            harbor-vm engineer greenhouse-infra
            harbor-vm engineer parcel-api
            harbor-vm leaver tidewater-web
            cedar interrupted lantern-game
            cedar engineer tidewater-web
            cedar planner parcel-api
            cedar dismissed field-guide
            dune engineer kiln-firmware
            dune finisher kiln-firmware
            dune guarded lantern-game
        """.strip().splitlines()
    )
)
