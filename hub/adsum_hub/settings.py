"""What a hub is told at start."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from platformdirs import user_config_path
from pydantic import Field, field_validator

from adsum_hub.budget import read_budgets
from adsum_shared.settings import AdsumSettings


class HubSettings(AdsumSettings):
    hub_host: str = Field(default="127.0.0.1", description="Address the hub listens on.")
    hub_port: int = Field(default=47893, ge=0, le=65535)
    hub_allow_public: bool = Field(
        default=False,
        description="Listen on an address other machines reach, though nobody signs in yet: "
        "only behind a port published on loopback or a proxy of your own that asks who it is.",
    )
    hub_hosts: list[str] = Field(
        default_factory=list,
        description="Further Host header values to answer to, e.g. hub.example.net:443.",
    )
    price_file: Path = Field(
        default_factory=lambda: user_config_path("adsum") / "prices.toml",
        description="Prices that are to hold before the known ones; nothing there: none.",
    )
    budgets: Any = Field(
        default=None,
        description="Tables of scope, usd, per and perhaps name: see docs/usage.md.",
    )
    domains: list[Any] = Field(
        default_factory=list,
        description="Tables of project, a glob, and use, names of domains: see docs/plugins.md.",
    )

    notify: Any = Field(
        default=None,
        description="Tables [[notify]]: who is told of what; see docs/notifications.md.",
    )
    # Not looked at here: an error of this class would quote it, and it holds secrets.
    channel: Any = Field(
        default=None,
        repr=False,
        description="Tables [[channel]]: services to tell people by; see docs/notifications.md.",
    )
    push_contact: str | None = Field(
        default=None,
        description="mailto: and an address of yours, for push services; Apple's wants one.",
    )
    push_key_file: Path | None = Field(
        default=None,
        description="Key that signs pushes, the same for all hubs; empty: one of this hub's own.",
    )
    push_allow_private: bool = Field(
        default=False,
        description="Push to services in the hub's own network as well, and without TLS: for tests.",
    )

    @field_validator("budgets")
    @classmethod
    def _require_budgets(cls, given: Any) -> Any:
        """Raises BudgetsError as it is, early: also where the hub is only about to be started."""
        read_budgets(given, variable="ADSUM_BUDGETS" in os.environ)
        return given
