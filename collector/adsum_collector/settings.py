"""The collector's settings: flags, ADSUM_… variables, TOML file, defaults."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator
from pydantic_settings import NoDecode

from adsum_collector.agents import known_agents
from adsum_collector.agents.base import Agent
from adsum_shared.settings import AdsumSettings


def _default_claude_dirs() -> tuple[Path, ...]:
    return known_agents()[0].directories(os.environ, Path.home())


class CollectorSettings(AdsumSettings):
    collector_port: int = Field(
        default=47892, ge=0, le=65535, description="Loopback port for hooks; 0: any free one."
    )
    host_label: str | None = Field(
        default=None, max_length=100, description="This machine's name in lists; empty: hostname."
    )
    claude_dirs: Annotated[tuple[Path, ...], NoDecode] = Field(
        default_factory=_default_claude_dirs,
        description="Claude Code's configuration directories, separated like PATH.",
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

    def directories_of(self, agent: Agent) -> tuple[Path, ...]:
        """Those of the settings, or the agent's usual ones."""
        default = known_agents()[0]
        if agent.name == default.name:
            return self.claude_dirs
        return agent.directories(os.environ, Path.home())

    @field_validator("claude_dirs", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(Path(part).expanduser() for part in value.split(os.pathsep) if part)
        return value
