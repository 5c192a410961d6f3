"""Finds or makes the secret that seals records, compares it with Redis, and signs records of an earlier version.

Redis has a probe: a record that the secret sealed. A hub whose secret does not fit the probe stops,
or two hubs would refuse each other's sign-ins.

Records from before there was a secret are signed once, by the hub that makes the secret, if its state
directory is older than the upgrade. What says so is a file in that directory: a mark in Redis could be
deleted to have planted records signed. A hub that is given its secret signs none: another hub of this
Redis may have signed them before.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import shlex
from collections.abc import AsyncIterator
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

import msgspec

from adsum_hub.auth.credentials import ID_LENGTH
from adsum_hub.auth.seal import REVOKED_FILE, RecordSeal, RevokedCredentials
from adsum_hub.auth.sealed import LEAST_SECRET, sealed, unsealed
from adsum_hub.clock import Clock
from adsum_hub.redis_access import answered_within
from adsum_hub.settings import HubSettings
from adsum_shared import AdsumError, streams
from adsum_shared.connect import UNAVAILABLE, Redis, require_recent, wanted
from adsum_shared.private_files import open_private, write_private
from adsum_shared.redact import clean

log = logging.getLogger(__name__)

SECRET_FILE = "hub-secret"  # noqa: S105 - a name
NOTE_FILE = "records-signed"
#: Files that hubs of earlier versions have written; version 0.1.0 roll.json alone, once a machine had joined.
_OF_EARLIER = ("command-key.pem", "roll.json")
INTERVAL_S = 2.0
START_S = 2.0
FOREIGN = (
    "The probe of the hub's secret in Redis is not this hub's. Another hub with another secret "
    "runs there, or somebody changed it. This hub does not start again until that is settled."
)
_COPY = (
    "copy the file hub-secret from the state directory of that hub, and name the copy in "
    "ADSUM_HUB_SECRET_FILE."
)
NO_SECRET = (
    "This hub has no secret, but Redis has records that the secret of a hub sealed. If a hub has it: "
    f"{_COPY} If none has it any more: {{}} Then start this hub. Everybody then has to sign in again, and "
    "machines have to join again."
)
OTHER_SECRET = (
    "This hub's secret did not seal the probe in Redis. If another hub, with another secret, uses this Redis: "
    f"{_COPY} If none does, somebody changed the probe: {{}} Then start this hub. What this hub's secret sealed "
    "then stays valid; for all else, people have to sign in again and machines have to join again."
)
Note = Literal["begun", "done"]


class HubSecretError(AdsumError):
    """The hub has no secret that it can use. The text names the cause and the next step."""


def read_secret(settings: HubSettings) -> bytes | None:
    """Return the secret that is set, or that this hub has made; None if there is none. Raises HubSecretError."""
    file = settings.state_dir / SECRET_FILE
    try:
        if settings.hub_secret:
            return _long_enough(settings.hub_secret.encode(), "ADSUM_HUB_SECRET")
        if settings.hub_secret_file:
            file = settings.hub_secret_file
            if file.stat().st_mode & 0o077:
                log.warning("others may read %s, the hub's secret: chmod 600 it", file)
            return _long_enough(file.read_bytes(), str(file))
        with os.fdopen(open_private(file, os.O_RDONLY), "rb") as own:
            if os.fstat(own.fileno()).st_mode & 0o077:
                raise HubSecretError(f"Others may read {file}, the hub's secret: chmod 600 it.")
            return _long_enough(own.read(), str(file))
    except FileNotFoundError as error:
        if not settings.hub_secret_file:
            return None
        raise HubSecretError(f"{file} is not there. Correct ADSUM_HUB_SECRET_FILE.") from error
    except OSError as error:
        cause = error.strerror or error
        step = "Make it a file of the user who runs the hub."
        raise HubSecretError(
            f"The hub's secret, {file}, cannot be read: {cause}. {step}"
        ) from error


def _long_enough(text: bytes, name: str) -> bytes:
    secret = text.strip()
    if len(secret) < LEAST_SECRET:
        raise HubSecretError(
            f"{name} holds {len(secret)} bytes; a secret has at least {LEAST_SECRET} bytes. "
            "Make one: openssl rand -hex 32"
        )
    return secret


def fits(secret: bytes, probe: bytes) -> bool:
    return unsealed(secret, streams.SECRET_PROBE, probe) is not None


def _deletion(settings: HubSettings) -> str:
    """Return how to delete the probe, as a sentence without its first capital."""
    url = settings.redis_url or ""
    if not url.startswith("unix:"):
        return f"delete the key {streams.SECRET_PROBE} in Redis."
    socket = shlex.quote(unquote(urlsplit(url).path))
    data = shlex.quote(str(settings.state_dir / "broker" / "data"))
    return (
        f"run `redis-cli -s {socket} del '{streams.SECRET_PROBE}'`. If that is the broker of `adsum up`, it has "
        f"ended by now: run `redis-server --port 0 --unixsocket {socket} --dir {data} --appendonly yes --save '' "
        f"--daemonize yes` (or valkey-server) before, and `redis-cli -s {socket} shutdown` after."
    )


class HubSecret:
    """The hub's secret, from its start until it ends. It gives `seal` the secret once Redis agrees."""

    def __init__(self, settings: HubSettings, clock: Clock) -> None:
        """Raises HubSecretError."""
        self._settings, self._folder, self._clock = settings, settings.state_dir, clock
        self._secret = read_secret(settings)
        self.seal = RecordSeal(None, self._revoked())
        # First: later this hub writes such files itself, and would look like an earlier version.
        if self._note() is None and not any((self._folder / each).exists() for each in _OF_EARLIER):
            self._write_note("done")
        made_here = not (settings.hub_secret or settings.hub_secret_file)
        if self._secret is not None and not (made_here and self._note() == "begun"):
            self._write_note("done")

    def _revoked(self) -> RevokedCredentials:
        """Raises HubSecretError."""
        file = self._folder / REVOKED_FILE
        try:
            return RevokedCredentials(file, self._clock)
        except (OSError, msgspec.DecodeError) as error:
            raise HubSecretError(
                f"{file}, the list of revoked credentials, cannot be read: {error}. Make it readable for the "
                "user who runs the hub, or restore it, or copy it from another hub of this Redis. To start "
                "without it, delete it: a revoked credential is then valid again if its record comes back."
            ) from error

    async def run(self, redis: Redis) -> None:
        """Compares, and exchanges revocations with other hubs. Raises HubSecretError."""
        while wanted():
            try:
                await self.look(redis)
            except UNAVAILABLE as error:
                log.debug("the hub's secret could not be compared: %s", error)
            await asyncio.sleep(INTERVAL_S)

    async def start(self, redis: Redis) -> None:
        """As `look`, once; a Redis that is away is left to `run`. Raises HubSecretError."""
        with contextlib.suppress(*UNAVAILABLE, TimeoutError):
            await answered_within(self.look(redis), START_S)

    async def look(self, redis: Redis) -> None:
        """Raises HubSecretError, UNAVAILABLE."""
        if self.seal.secret is None:
            self.seal.secret = await self._settled(redis)
        elif (probe := await self._probe(redis)) is None:  # Redis was emptied
            await self._put_probe(redis, self.seal.secret)
        elif not fits(self.seal.secret, probe) and FOREIGN not in self.seal.remarks:
            log.error(FOREIGN)
            self.seal.remarks.append(FOREIGN)
        await self.seal.exchange(redis)

    async def _settled(self, redis: Redis) -> bytes:
        """Return the secret that Redis's records are, or will be, sealed with. Raises HubSecretError."""
        require_recent(await redis.info("server"))
        probe, secret = await self._probe(redis), self._secret
        if probe is None:
            if self._note() is None:  # first: a hub that has a secret and no note was given it
                self._write_note("begun")
            if secret is None:
                secret = self._secret = await asyncio.to_thread(self._make)
            if not await self._put_probe(redis, secret):  # another hub was first, and signs
                self._write_note("done")
                return await self._settled(redis)
        elif secret is None:
            raise HubSecretError(NO_SECRET.format(_deletion(self._settings)))
        elif not fits(secret, probe):
            raise HubSecretError(OTHER_SECRET.format(_deletion(self._settings)))
        if self._note() == "begun":
            await self._sign_earlier(redis, secret)
        elif probe is None:
            await self._warn_of_unsigned(redis, secret)
        self._write_note("done")
        return secret

    async def _probe(self, redis: Redis) -> bytes | None:
        server: Any = redis
        probe: bytes | None = await server.get(streams.SECRET_PROBE)
        return probe

    async def _put_probe(self, redis: Redis, secret: bytes) -> bool:
        record = msgspec.json.encode({"since": self._clock()})
        probe = sealed(secret, streams.SECRET_PROBE, record)
        return bool(await redis.set(streams.SECRET_PROBE, probe, nx=True))

    def _make(self) -> bytes:
        """Whole or not at all, and the first of two hubs of one directory wins. Raises HubSecretError."""
        file, secret = self._folder / SECRET_FILE, secrets.token_hex(32).encode()
        try:
            with contextlib.suppress(FileExistsError):
                write_private(file, secret + b"\n", replace=False)
        except OSError as error:
            raise HubSecretError(
                f"The hub's secret cannot be written to {file}: {error.strerror or error}. Free space "
                "there, or set ADSUM_HUB_SECRET."
            ) from error
        return read_secret(self._settings) or secret

    def _note(self) -> Note | None:
        """Raises HubSecretError."""
        try:
            note = (self._folder / NOTE_FILE).read_text(encoding="ascii").strip()
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise HubSecretError(f"{self._folder / NOTE_FILE} cannot be read: {error}.") from error
        return "begun" if note == "begun" else "done"

    def _write_note(self, note: Note) -> None:
        """Raises HubSecretError."""
        if self._note() == note:
            return
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_private(self._folder / NOTE_FILE, f"{note}\n".encode())
        except OSError as error:
            cause = error.strerror or error
            raise HubSecretError(
                f"{self._folder / NOTE_FILE} cannot be written: {cause}. Free space there."
            ) from error

    async def _sign_earlier(self, redis: Redis, secret: bytes) -> None:
        """Sign what the indexes list and no secret has sealed, and log each record that changes something.

        Before it is signed, so that a run that is cut off has named it.
        """
        server: Any = redis
        signed = admins = 0
        async for key, field, raw in _listed(server):
            record = _plain(raw)
            if unsealed(secret, key, raw, field) is not None or record is None:
                continue
            kind, name = _described(key, field, record)
            if kind != "viewer":
                log.warning("the upgrade signs this %s, check it: %s", clean(kind), clean(name))
            admins += kind == "admin"
            after = sealed(secret, key, record, field)
            if field is None:  # XX: a record that was revoked in this moment stays away
                signed += bool(await server.set(key, after, xx=True, keepttl=True))
            elif await server.hexists(key, field):
                signed += 1
                await server.hset(key, field, after)
        # Each hub publishes its own again; one of an unknown writer is not to be trusted.
        await server.delete(streams.COMMAND_KEYS)
        if signed:
            log.warning("signed %d records of an earlier version", signed)
        if admins:
            self.seal.remarks.append(
                f"The upgrade signed the admin credentials that it found ({admins}). Check them: "
                "adsum hub tokens list; adsum hub sign-ins list. The hub's log names them."
            )

    async def _warn_of_unsigned(self, redis: Redis, secret: bytes) -> None:
        number = 0
        async for key, field, raw in _listed(redis):
            number += unsealed(secret, key, raw, field) is None
        if number:
            text = (
                f"{number} sign-ins, tokens and machines in Redis were not signed by this hub's "
                "secret, so they open nothing. Sign in again: adsum login on the hub's machine. "
                "Machines have to join again: adsum hub tokens create --join"
            )
            log.error("%s", text)
            self.seal.remarks.append(text)


async def _listed(server: Any) -> AsyncIterator[tuple[str, str | None, bytes]]:
    """Yield key, field and content of each record that an index lists."""
    for kind, index in (
        (lambda digest: streams.entry_pass("sign-in", digest), streams.entry_passes("sign-in")),
        (lambda digest: streams.entry_pass("token", digest), streams.entry_passes("token")),
        (streams.join_token, streams.JOIN_TOKENS),
    ):
        for digest in await server.zrange(index, 0, -1):
            key = kind(digest.decode(errors="replace"))
            if (raw := await server.get(key)) is not None:
                yield key, None, raw
    for field, raw in (await server.hgetall(streams.MACHINES)).items():
        name = field.decode(errors="replace")
        if name != streams.MACHINES_MARK:
            yield streams.MACHINES, name, raw


def _plain(raw: bytes) -> bytes | None:
    """Return an object with each key once; None if it is none."""
    try:
        return msgspec.json.encode(msgspec.json.decode(raw, type=dict[str, Any]))
    except msgspec.DecodeError:
        return None


def _described(key: str, field: str | None, record: bytes) -> tuple[str, str]:
    """Return what a record is, a person's role where it has one, and its id and name."""
    content: dict[str, Any] = msgspec.json.decode(record)
    if field is not None:
        return "machine", f"{field[:40]} ({str(content.get('label'))[:80]!r})"
    kind = "join token" if key.startswith(streams.join_token("")) else str(content.get("role"))[:40]
    return kind, f"{key.rpartition(':')[2][:ID_LENGTH]} ({str(content.get('name', ''))[:80]!r})"
