"""Reads a command's settings: flags, then ADSUM_… variables, then the TOML file."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from platformdirs import user_config_path
from pydantic import Field, ValidationError

from adsum.outcome import CommandError, Exit
from adsum_shared.settings import AdsumSettings, SettingsError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

T = TypeVar("T", bound=AdsumSettings)


class UpSettings(AdsumSettings):
    broker_memory_mb: int = Field(
        default=256, ge=16, description="What the embedded broker may hold; then it refuses more."
    )
    token_file: Path | None = Field(
        default=None, description="A file with the token that commands show to a hub elsewhere."
    )


def read_settings(
    kind: type[T], *, state_dir: Path | None = None, redis_url: str | None = None
) -> T:
    """None: not given as a flag. Raises CommandError naming the variable or the file."""
    flags: dict[str, Any] = {"state_dir": state_dir, "redis_url": redis_url}
    try:
        return kind(**{name: value for name, value in flags.items() if value is not None})
    except ValidationError as error:
        wrong = "; ".join(
            f"ADSUM_{'_'.join(map(str, one['loc'])).upper()}: {one['msg']}{_instead_of(one)}"
            for one in error.errors()
        )
        raise CommandError(f"A setting cannot be used. {wrong}.", Exit.USAGE) from error
    except SettingsError as error:
        raise CommandError(str(error), Exit.USAGE) from error
    except tomllib.TOMLDecodeError as error:
        file = user_config_path("adsum") / "config.toml"
        raise CommandError(f"{file} is not TOML: {error}.", Exit.USAGE) from error


def require_url(url: str) -> None:
    """Raises CommandError for what is no Redis URL."""
    from adsum_shared.connect import RedisUrlError, check_url

    try:
        check_url(url)
    except RedisUrlError as error:
        raise CommandError(str(error), Exit.USAGE) from None


def _instead_of(error: ErrorDetails) -> str:
    # A Redis URL of the wrong type may hold a password all the same.
    return (
        ""
        if str(error["loc"][-1]).endswith(("redis_url", "shared_url"))
        else f", not {error['input']!r}"
    )
