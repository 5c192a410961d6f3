"""The collector's settings: flags, ADSUM_… variables, TOML file, defaults."""

import functools
import os
from math import ceil
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, create_model
from pydantic_settings import NoDecode

from adsum_collector.agents import known_agents
from adsum_collector.agents.base import Agent
from adsum_collector.agents.installer import HOLD_TIMEOUT_S
from adsum_shared.commands import LEASE_MOST_S
from adsum_shared.settings import AdsumSettings

#: Ours ends before the hook's own time does: to the agent that would look like its being dismissed.
HOLD_MOST_S = HOLD_TIMEOUT_S - 600
#: The same of a form's.
MARGIN_S = 10


def _paths(value: object) -> object:
    if isinstance(value, str):
        return tuple(Path(part).expanduser() for part in value.split(os.pathsep) if part)
    return value


def _usual_directories(agent: Agent) -> tuple[Path, ...]:
    return agent.directories(os.environ, Path.home())


def _with_agents_directories(settings: type[AdsumSettings]) -> type[AdsumSettings]:
    """The settings, and one for each known agent that has one."""
    directories: Any = Annotated[tuple[Path, ...], NoDecode, BeforeValidator(_paths)]
    fields: dict[str, Any] = {
        agent.setting: (
            directories,
            Field(
                default_factory=functools.partial(_usual_directories, agent),
                description=f"{agent.title}'s configuration directories, separated like PATH.",
            ),
        )
        for agent in known_agents()
        if agent.setting
    }
    name, module = settings.__name__, settings.__module__
    return create_model(name, __base__=settings, __module__=module, **fields)


@_with_agents_directories
class CollectorSettings(AdsumSettings):
    collector_port: int = Field(
        default=47892, ge=0, le=65535, description="Loopback port for hooks; 0: any free one."
    )
    host_label: str | None = Field(
        default=None, max_length=100, description="This machine's name in lists; empty: hostname."
    )
    spool_cap_mb: int = Field(
        default=512,
        ge=1,
        le=1 << 20,
        description="Disk the spool may use, from 1 MB to 1 TB; beyond it the oldest is dropped.",
    )
    spool_retention_h: float = Field(
        default=24,
        ge=0,
        allow_inf_nan=False,
        description="Hours a signal stays on disk after every hub has it.",
    )
    privacy: Literal["metadata", "redacted", "full"] = Field(
        default="redacted", description="What may leave this machine."
    )

    mend_hooks: bool = Field(
        default=False,
        description="Put hooks right that others removed or changed: looked at every minute, "
        "while a collector runs, where they were installed and not taken out by Adsum.",
    )
    hold_s: float = Field(
        default=12 * 3600,
        ge=1,
        le=HOLD_MOST_S,
        description="Seconds a request is held open for a decision from elsewhere.",
    )
    hold_subagent_s: float = Field(
        default=60,
        ge=1,
        le=HOLD_MOST_S,
        description="The same of a subagent's, which the terminal does not show meanwhile.",
    )

    hold_form_s: float = Field(
        default=5,
        ge=0,
        le=HOLD_MOST_S,
        description="The same of a server's form, which the terminal does not show meanwhile; at most "
        "`hold_s`. 0: forms are not held. While somebody elsewhere has it open, it is held for up to 5 minutes.",
    )

    @property
    def form_s(self) -> float:
        return min(self.hold_form_s, self.hold_s)

    @property
    def form_timeout_s(self) -> int:
        """Return the timeout of a form's hook: a collector that hangs keeps the form back no longer."""
        return MARGIN_S + (max(ceil(self.form_s), LEASE_MOST_S) if self.form_s else 0)

    def directories_of(self, agent: Agent) -> tuple[Path, ...]:
        """Those of the settings, or the agent's usual ones."""
        named: tuple[Path, ...] | None = getattr(self, agent.setting or "-", None)
        return _usual_directories(agent) if named is None else named
