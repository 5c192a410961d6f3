"""The settings that all parts share: flags, ADSUM_… variables, a TOML file."""

import json
import re
import tomllib
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_type_hints

import msgspec
from platformdirs import user_config_path, user_state_path
from pydantic import Field, model_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from adsum_shared import AdsumError
from adsum_shared.redis_url import with_ca

_NAMES = tomllib.loads(Path(__file__).with_name("settings.toml").read_text(encoding="utf-8"))
#: Every setting of every part: they share one file, and no part may know the others' classes.
KNOWN = frozenset(name for names in _NAMES.values() for name in names)
#: Read from the file alone, while a part runs.
LIVE = tuple(_NAMES["live"])
#: Begun with a line [[…]].
TABLES = frozenset(_NAMES["tables"])


class ConfigError(AdsumError):
    """A setting cannot be used. The text names where it stands, the cause, the next step.

    No ValueError: raised by a validator, that would be wrapped in words that name a variable which
    nobody has set.
    """


T = TypeVar("T")


class EntryError(ConfigError):
    """An entry of a setting cannot be used; none of its values is shown, as it may be a secret."""

    def __init__(self, where: str, cause: str, step: str) -> None:
        super().__init__(f"{where}: {cause}. {step}")


def entries_of(setting: str, given: Any, *, variable: bool = False) -> list[tuple[str, Any]]:
    """Each with where it stands, as TOML has them or from JSON text. Raises EntryError.

    variable: they come from the environment.
    """
    name = f"ADSUM_{setting.upper()}"
    where = name if variable else f"[[{setting}]]"
    if isinstance(given, str) and given:
        try:
            given = json.loads(given)
        except ValueError:
            step = f"Write {name} as a JSON list, or the entries into config.toml."
            raise EntryError(where, "it is no JSON", step) from None
    entries = given or ()
    if not isinstance(entries, list | tuple):
        step = f"Begin every entry with a line [[{setting}]]; a variable takes a JSON list."
        raise EntryError(where, "it is not a list of entries", step)
    where += ", entry" * variable
    return [(f"{where} {number}", entry) for number, entry in enumerate(entries, 1)]


def read_entry(where: str, entry: Any, of: type[T]) -> T:
    """of: a struct. Raises EntryError."""
    try:
        return msgspec.convert(entry, of)
    except (msgspec.ValidationError, OverflowError) as error:
        # The library quotes what it found where it expects a choice.
        cause = re.sub(r"Invalid enum value '.*'", "no value that is known", str(error))
        cause = cause.replace("Object contains", "there is an").replace(" - at `$`", "")
        cause = cause.replace("Object missing required field", "there is no").replace("`$.", "`")
        fields = get_type_hints(of)
        step = f"Correct it; an entry has {', '.join(f'`{name}`' for name in fields)}."
        for name, hint in fields.items():
            if f"`{name}`" in cause and (
                choices := [c for c in get_args(hint) if isinstance(c, str)]
            ):
                step = f"Write one of {', '.join(choices)}."
        raise EntryError(where, cause, step) from None


def require_known(file: Path, names: Iterable[str]) -> None:
    """Raises ConfigError: a name with a slip of the pen would count for nothing, and silently."""
    unknown = sorted(set(names) - KNOWN)
    if not unknown:
        return
    name = unknown[0]
    near = get_close_matches(name.casefold(), sorted(KNOWN), n=1)
    step = "Remove it, or move it to its table."
    if near:
        meant = f"[[{near[0]}]]" if near[0] in TABLES else f"`{near[0]}`"
        step = f"Did you mean {meant}?"
    raise ConfigError(f"{file}: there is no setting `{name[:40]}`. {step}")


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
        description="redis://, rediss:// or unix:// URL of the broker, or of Sentinels or a cluster: see "
        "docs/transports.md; empty: the embedded one.",
    )
    redis_ca: Path | None = Field(
        default=None,
        description="PEM file with the authority that signs Redis's certificate; no other one counts then.",
    )
    log_level: str = Field(default="info", pattern="(?i)^(debug|info|warning|error)$")
    log_format: Literal["auto", "json", "plain"] = Field(
        default="auto",
        description="Of hub and collector; auto: plain at a terminal, JSON elsewhere.",
    )

    @model_validator(mode="before")
    @classmethod
    def _name_authority(cls, given: dict[str, Any]) -> dict[str, Any]:
        """In the URL itself, which is all that whoever connects is told."""
        url, ca = given.get("redis_url"), given.get("redis_ca")
        if not (isinstance(url, str) and url and ca):
            return given
        if url.startswith(("redis:", "redis+")):
            raise ConfigError(
                "redis_ca (ADSUM_REDIS_CA) is set, and redis_url (ADSUM_REDIS_URL) asks for no TLS. "
                "Begin the URL with rediss, or take redis_ca out."
            )
        return {**given, "redis_url": with_ca(url, str(Path(ca).expanduser().absolute()))}

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
        written = TomlConfigSettingsSource(settings_cls, toml_file=file)
        require_known(file, written.toml_data)
        return init_settings, env_settings, written
