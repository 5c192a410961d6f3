"""The hub's settings: flags, ADSUM_… variables, TOML file, defaults."""

import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from platformdirs import user_config_path
from pydantic import Field, ValidationInfo, field_validator

from adsum_hub.usage.budgets import read_budgets
from adsum_hub.verdict.reading import LIMITS, Limits
from adsum_shared.connect import check_url
from adsum_shared.redis_url import RedisUrlError
from adsum_shared.settings import AdsumSettings, ConfigError


class HubSettings(AdsumSettings):
    hub_host: str = Field(default="127.0.0.1", description="Address the hub listens on.")
    hub_port: int = Field(default=47893, ge=0, le=65535)
    hub_allow_public: bool = Field(
        default=False,
        description="Listen on an address other machines reach although no TLS stands before it: "
        "only behind a port published on loopback, or in a network you trust with your sign-in.",
    )
    hub_hosts: list[str] = Field(
        default_factory=list,
        description="Further Host header values to answer to, e.g. hub.example.net.",
    )
    public_url: str | None = Field(
        default=None,
        description="Where people elsewhere reach the hub, e.g. https://hub.example.net: for login "
        "links, and for cookies that only TLS carries.",
    )
    hub_secret: str | None = Field(
        default=None,
        repr=False,
        description="Secret that seals what opens something in Redis, the same for all hubs of it; at least "
        "32 bytes. Empty: hub_secret_file, or one that the first hub makes.",
    )
    hub_secret_file: Path | None = Field(
        default=None, description="File with that secret; empty: hub-secret in the state directory."
    )
    machine_redis_url: str | None = Field(
        default=None,
        repr=False,
        description="Where machines that join reach Redis, without a login: each gets its own. "
        "Empty: where the hub does.",
    )
    machine_shared_url: str | None = Field(
        default=None,
        repr=False,
        description="A Redis URL for machines that can be given no login of their own. Whoever has "
        "it can read and write everything. Empty: such a machine goes through the hub.",
    )
    machine_sessions: int = Field(
        default=LIMITS.most_sessions,
        ge=10,
        le=1_000_000,
        description="Sessions of one machine that are listed at once; beyond them the oldest "
        "delivered ones become history early, and where there are none, new ones are left out.",
    )
    machine_room_mb: int = Field(
        default=128,
        ge=16,
        le=1 << 20,
        description="Megabytes of Redis that one machine's unread signals may take; a stream beyond "
        "it is deleted, and its collector sends again what it holds.",
    )
    sign_in: bool = Field(
        default=True,
        description="off: nobody has to sign in, and everybody is an admin. On loopback only.",
    )
    demo: bool = Field(default=False, description="What it shows is made up, and its page says so.")
    price_file: Path = Field(
        default_factory=lambda: user_config_path("adsum") / "prices.toml",
        description="Prices that are to hold before the known ones; nothing there: none.",
    )
    budgets: Any = Field(
        default=None, description="Tables of scope, usd, per and perhaps name: see docs/usage.md."
    )
    error_grace: float = Field(
        default=LIMITS.error_grace / 1000,
        ge=0,
        le=600,
        description="Seconds in which an agent may recover from a failed tool call before it needs "
        "you; 0: at once.",
    )
    stuck_after: float = Field(
        default=LIMITS.stuck_after / 1000,
        ge=10,
        le=86_400,
        description="Seconds without a sign of life after which an agent at work counts as stuck. "
        "Not set: 300 where nobody looks at whether its process stands still too.",
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

    @property
    def limits(self) -> Limits:
        # Whoever has chosen how long to wait waits no longer, whatever a machine can see.
        chosen, stuck_after = "stuck_after" in self.model_fields_set, round(self.stuck_after * 1000)
        return Limits(
            most_sessions=self.machine_sessions,
            error_grace=round(self.error_grace * 1000),
            stuck_after=stuck_after,
            model_silence=stuck_after if chosen else LIMITS.model_silence,
        )

    @field_validator("public_url")
    @classmethod
    def _require_origin(cls, given: str | None) -> str | None:
        """Without a path: the page and its sockets are at fixed ones."""
        if not given:
            return None
        # The library puts the variable's name before it, and what was given behind it.
        wrong = "write it as https://hub.example.net or http://192.168.1.5:47893, without a path"
        try:
            parts = urlsplit(given.rstrip("/"))
            port = parts.port
            (parts.hostname or "").encode("idna")  # refuses what nobody could look up
        except ValueError:
            raise ValueError(wrong) from None
        bare = f"{parts.scheme}://{parts.netloc}".lower() == given.rstrip("/").lower()
        plain = bare and given.isascii() and given.isprintable() and " " not in given
        if parts.scheme not in ("http", "https") or not parts.hostname or "@" in given or not plain:
            raise ValueError(wrong)
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        preset = 443 if parts.scheme == "https" else 80
        # As a browser writes it into Host and Origin.
        return f"{parts.scheme}://{host}" + (f":{port}" if port not in (None, preset) else "")

    @field_validator("machine_redis_url", "machine_shared_url")
    @classmethod
    def _require_redis(cls, given: str | None, info: ValidationInfo) -> str | None:
        """Else each machine that joins would meet it. A ValueError would be told with the URL."""
        if not given:
            return None
        try:
            check_url(given)
        except RedisUrlError:
            raise ConfigError(
                f"ADSUM_{(info.field_name or '').upper()} is no Redis URL. It looks like "
                "redis://host:6379, rediss://host:6379 or unix:///path; a login stands before the "
                "host as user:password@, with / ? # @ : % in it written as %2F %3F %23 %40 %3A %25."
            ) from None
        return given

    @field_validator("budgets")
    @classmethod
    def _require_budgets(cls, given: Any) -> Any:
        """Raises EntryError as it is, early: also where the hub is only about to be started."""
        read_budgets(given, variable="ADSUM_BUDGETS" in os.environ)
        return given
