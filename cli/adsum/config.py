"""Reads a command's settings: flags, then ADSUM_… variables, then the TOML file; and shows all of them."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic import Field, ValidationError

from adsum.client import config_file, read_config
from adsum.outcome import CommandError, Exit, put, put_json
from adsum_shared.redact import clean, redacted
from adsum_shared.settings import LIVE, AdsumSettings, ConfigError, require_known

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails
    from rich.table import Table

T = TypeVar("T", bound=AdsumSettings)
SCHEMA = 1
#: Read from variables alone: they say where a command goes, and no part of ours is one.
VARIABLES = {
    "hub_url": "The hub that commands ask, e.g. https://hub.example.net; --hub says the same.",
    "token": "The token that commands show to a hub elsewhere; better in a file: token_file.",
    "join_token": "The token that `adsum join` shows once, in place of --token.",
}
HIDDEN = "(set, not shown)"
#: Of these the address is told, and neither login nor query.
REDIS_URLS = ("redis_url", "machine_redis_url", "machine_shared_url")
#: A file with a secret may be named, the secret not.
_SECRET = re.compile(r"(?:^|_)(?:channel|password|secret|token|key)s?$")

Origin = Literal["flag", "env", "file", "default"]


@dataclass(frozen=True, slots=True)
class Setting:
    """value: as JSON has it, without secrets. source: the flag, variable or file that says so."""

    part: str
    name: str
    value: Any
    origin: Origin
    source: str | None = None
    problem: str | None = None

    def as_json(self) -> dict[str, Any]:
        told = {"part": self.part, "name": self.name, "value": self.value}
        told |= {"origin": self.origin, "source": self.source}
        return {**told, "problem": self.problem} if self.problem else told


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
    except ConfigError as error:
        raise CommandError(str(error), Exit.USAGE) from error
    except tomllib.TOMLDecodeError as error:
        raise CommandError(f"{config_file()} is not TOML: {error}.", Exit.USAGE) from error


def require_url(url: str) -> None:
    """Raises CommandError for what is no Redis URL."""
    from adsum_shared.connect import check_url
    from adsum_shared.redis_url import RedisUrlError

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


def settings_by_part() -> dict[str, type[AdsumSettings]]:
    """By whom a setting is read. What all of them read stands first, and once."""
    from adsum_collector.settings import CollectorSettings
    from adsum_hub.settings import HubSettings

    return {
        "every part": AdsumSettings,
        "hub": HubSettings,
        "collector": CollectorSettings,
        "command line": UpSettings,
    }


def show_config(flags: Mapping[str, Any], *, origin: bool, as_json: bool) -> int:
    """flags: those that were given, by setting."""
    file = config_file()
    settings = list(every_setting(flags, os.environ, read_file(file), file))
    if as_json:
        told = {"schema": SCHEMA, "file": str(file), "file_exists": file.exists()}
        told["settings"] = [each.as_json() for each in settings]
        told["joined"] = joined_way(flags)
        put_json(told)
    else:
        from adsum.text.tables import open_console, show

        show(open_console(), _table(settings, origin=origin))
        put(f"\n{file}{'' if file.exists() else ' (there is none)'}")
        if way := joined_way(flags):
            put(f"Joined {clean(way['hub'])}; signals go {clean(way['way'])}.")
    wrong = [each for each in settings if each.problem]
    if wrong:
        told_of = "; ".join(f"{each.source or each.name}: {each.problem}" for each in wrong)
        raise CommandError(f"A setting cannot be used. {told_of}", Exit.USAGE)
    return Exit.OK


def joined_way(flags: Mapping[str, Any]) -> dict[str, str] | None:
    """What joining gave in place of settings; None: this machine has not joined, or names a Redis."""
    from adsum.machine import membership

    try:
        settings = AdsumSettings(**flags)
    except (ValidationError, ConfigError):
        return None  # told above
    machine = membership(settings.state_dir)
    if machine is None or settings.redis_url:
        return None
    straight = f"to Redis at {_address(machine.redis_url)}"
    return {"hub": machine.hub, "way": "through the hub" if machine.ingest else straight}


def read_file(file: Path) -> dict[str, Any]:
    """Empty where there is none. Raises CommandError for what no part could read either."""
    written = read_config(file)
    try:
        require_known(file, written)
    except ConfigError as error:
        raise CommandError(str(error), Exit.USAGE) from error
    return written


def every_setting(
    flags: Mapping[str, Any], environ: Mapping[str, str], written: Mapping[str, Any], file: Path
) -> Iterator[Setting]:
    given = {name.casefold(): (name, value) for name, value in environ.items()}
    for part, kind in settings_by_part().items():
        used, wrong = _used(kind, flags)
        for name in own_names(kind):
            variable, raw = given.get(f"adsum_{name}", ("", None))
            origin, source = _origin(name, flags, variable, written, file)
            value = used[name] if name in used else _raw(kind, name, raw, written)
            yield Setting(part, name, shown(name, value), origin, source, wrong.get(name))
    for name in VARIABLES:
        variable, raw = given.get(f"adsum_{name}", ("", None))
        value = shown(name, raw or None)
        yield Setting("command line", name, value, "env" if raw else "default", variable or None)
    for name in LIVE:
        origin, source = _origin(name, {}, "", written, file)
        yield Setting("collector", name, shown(name, written.get(name)), origin, source)


def _raw(kind: type[AdsumSettings], name: str, raw: str | None, written: Mapping[str, Any]) -> Any:
    """What stands there, where the part could not start with all of it."""
    preset = kind.model_fields[name].get_default(call_default_factory=True)
    if isinstance(preset, tuple):
        preset = [str(each) for each in preset]
    return raw if raw is not None else written.get(name, preset)


def own_names(kind: type[AdsumSettings]) -> list[str]:
    """Without what every part reads, unless asked for just that."""
    shared = () if kind is AdsumSettings else AdsumSettings.model_fields
    return [name for name in kind.model_fields if name not in shared]


def _origin(
    name: str, flags: Mapping[str, Any], variable: str, written: Mapping[str, Any], file: Path
) -> tuple[Origin, str | None]:
    if name in flags:
        return "flag", f"--{name.replace('_', '-')}"
    if variable:
        return "env", variable
    if name in written:
        return "file", str(file)
    return "default", None


def _used(
    kind: type[AdsumSettings], flags: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, str]]:
    """The values as the part has them, by name; or what is wrong with which."""
    try:
        return kind(**flags).model_dump(mode="json"), {}
    except ValidationError as error:
        # Its `input` is left out: it may hold a secret.
        return {}, {str(one["loc"][0]): one["msg"] for one in error.errors()}
    except ConfigError as error:
        return {}, {_named_in(str(error), kind): str(error)}


def _named_in(text: str, kind: type[AdsumSettings]) -> str:
    """The setting that an error's own words name; else the first, so that it is told at all."""
    names = own_names(kind)
    return next((name for name in names if re.search(rf"(?i)\b(adsum_)?{name}\b", text)), names[0])


def shown(name: str, value: Any) -> Any:
    """What may be told of a value."""
    if value in (None, "", [], {}):
        return None
    if _SECRET.search(name):
        return HIDDEN
    if name in REDIS_URLS:
        return _address(str(value))
    return redacted(value, "") if not isinstance(value, Path) else str(value)


def _address(url: str) -> str:
    from adsum_shared.connect import check_url
    from adsum_shared.redis_url import RedisUrlError, address_of

    try:
        check_url(url)
    except RedisUrlError:
        return HIDDEN
    return address_of(url)


def in_words(value: Any) -> str:
    if value is None:
        return "-"
    return clean(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _table(settings: list[Setting], *, origin: bool) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("SETTING", no_wrap=True)
    table.add_column("VALUE", overflow="fold")
    if origin:
        table.add_column("FROM", overflow="fold")
    part = ""
    for each in settings:
        if each.part != part:
            part = each.part
            table.add_row(Text(part, "bold"))
        style = "red" if each.problem else "dim" if each.origin == "default" else ""
        words = [Text(f"  {each.name}"), Text(in_words(each.value), style)]
        if origin:
            words.append(Text(each.source or each.origin, style))
        table.add_row(*words)
    return table
