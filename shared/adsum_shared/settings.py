"""What collector, hub and command line all read from flags, ADSUM_… variables and a TOML file."""

from __future__ import annotations

from pathlib import Path

from platformdirs import user_config_path, user_state_path
from pydantic import Field
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)


class AdsumSettings(BaseSettings):
    """Read once at start, frozen, passed down. Precedence: flag > ADSUM_… > TOML file > default."""

    model_config = SettingsConfigDict(
        env_prefix="ADSUM_", frozen=True, extra="ignore", validate_default=True
    )

    state_dir: Path = Field(
        default_factory=lambda: user_state_path("adsum"),
        description="Where this machine's identity, spool and embedded broker live.",
    )
    redis_url: str | None = Field(
        default=None,
        description="redis://, rediss:// or unix:// URL of the broker; empty: the embedded one.",
    )
    log_level: str = Field(default="info", pattern="(?i)^(debug|info|warning|error)$")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        del dotenv_settings, file_secret_settings
        file = user_config_path("adsum") / "config.toml"
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, toml_file=file)
