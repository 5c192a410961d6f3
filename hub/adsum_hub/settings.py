"""What a hub is told at start."""

from __future__ import annotations

from pydantic import Field

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
