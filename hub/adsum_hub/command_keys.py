"""Keeps the key by which this hub signs commands, and shows its public half to machines and hubs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from adsum_hub.auth.seal import RecordSeal
from adsum_hub.rest.api import SCHEMA, endpoint
from adsum_shared import AdsumError, streams
from adsum_shared.commands import key_id
from adsum_shared.connect import UNAVAILABLE, Redis, wanted
from adsum_shared.private_files import open_private, write_private

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

log = logging.getLogger(__name__)

#: A Redis that was emptied has the public halves of its hubs' keys again within this time.
ANNOUNCED_S = 60.0


NO_SIGN_IN = (
    "It asks nobody to sign in, so anybody on its machine could decide. Restart it without "
    "ADSUM_SIGN_IN=off."
)


class CommandKeyError(AdsumError):
    """Nothing can be signed. The text names the file, the cause and the next step."""


class CommandKeysKnown(msgspec.Struct):
    """The public keys of all hubs of this Redis, in hex, by their ids. A machine pins them."""

    schema: int
    keys: dict[str, str]


class PublicKey(msgspec.Struct):
    """key: in hex."""

    key: str


class CommandKeys:
    """The key that this hub signs commands with, made when there is none; and what other hubs have.

    Its private half is in one file of the hub's. Redis has only the public halves, sealed. Otherwise a
    program that can write there could decide in any person's name, or have a machine trust its key.
    """

    def __init__(
        self, state_dir: Path, redis: Redis, seal: RecordSeal, *, signs: bool = True
    ) -> None:
        """signs: False where nobody signs in, so whoever decides could be anybody of the hub's machine."""
        self.signs = signs
        self._file = state_dir / "command-key.pem"
        self._redis, self._seal = redis, seal
        self._key: Ed25519PrivateKey | None = None
        self._loading = asyncio.Lock()

    async def run(self) -> None:
        """Makes the key at the hub's first start, and shows its public half for as long as it runs."""
        while wanted():
            try:
                if self.signs:
                    await self.own()
                    await self.known()
                else:
                    await self._withdraw()
            except CommandKeyError as error:
                log.warning("nobody can decide anything from here: %s", error)
                return
            except UNAVAILABLE as error:
                log.debug("the key for commands could not be shown: %s", error)
            if wanted():  # or the hub's end, once lost, would come a minute late
                await asyncio.sleep(ANNOUNCED_S)

    async def own(self) -> Ed25519PrivateKey:
        """Raises CommandKeyError."""
        if not self.signs:
            raise CommandKeyError(NO_SIGN_IN)
        async with self._loading:
            if self._key is None:
                self._key = await asyncio.to_thread(self._load)
            return self._key

    async def known(self) -> dict[str, str]:
        """Return the public keys of all hubs; none if this hub does not sign. Raises UNAVAILABLE."""
        if not self.signs:
            return {}
        stored: dict[Any, Any] = await self._redis.hgetall(streams.COMMAND_KEYS)
        read = (self._key_of(*each) for each in stored.items())
        found = dict(each for each in read if each is not None)
        with contextlib.suppress(CommandKeyError):
            public = (await self.own()).public_key()
            name, mine = key_id(public), public.public_bytes_raw().hex()
            if found.get(name) != mine:  # each write goes to the disk of Redis
                record = msgspec.json.encode(PublicKey(mine))
                encoded: Any = self._seal.sign(streams.COMMAND_KEYS, record, name)
                await self._redis.hset(streams.COMMAND_KEYS, name, encoded)
                found[name] = mine
        return found

    def _key_of(self, field: bytes, raw: bytes) -> tuple[str, str] | None:
        """Return an entry of Redis, if a hub signed it and it is a key under its own id."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        name = field.decode(errors="replace")
        record = self._seal.verify(streams.COMMAND_KEYS, raw, name)
        try:
            text = msgspec.json.decode(record or b"", type=PublicKey).key
            key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(text))
        except ValueError:  # what cannot be decoded too
            return None
        return (name, text) if key_id(key) == name else None

    async def _withdraw(self) -> None:
        """Remove the key of a run with sign-in from Redis, or a machine could pin it. Raises CommandKeyError."""
        if self._file.exists():
            key = await asyncio.to_thread(self._load)
            await self._redis.hdel(streams.COMMAND_KEYS, key_id(key.public_key()))

    @endpoint("GET /command-keys", "The keys by which hubs sign what people decide")
    async def command_keys(self) -> CommandKeysKnown:
        return CommandKeysKnown(SCHEMA, await self.known())

    def _load(self) -> Ed25519PrivateKey:
        """Imports what takes a tenth of a second: not for the loop."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        try:
            if not self._file.exists():
                self._make()
            with os.fdopen(open_private(self._file, os.O_RDONLY), "rb") as file:
                if os.fstat(file.fileno()).st_mode & 0o077:
                    raise CommandKeyError(
                        f"Others may read {self._file}, the key for commands. If nobody has: chmod "
                        "600 it. Else remove it, restart the hub, and switch control on anew."
                    )
                key = load_pem_private_key(file.read(), None)
        except OSError as error:
            step = "Make it a file of the user who runs the hub."
            cause = error.strerror or error
            raise CommandKeyError(
                f"The key for commands, {self._file}, cannot be used: {cause}. {step}"
            ) from error
        except (ValueError, TypeError) as error:
            raise CommandKeyError(_no_key(self._file)) from error
        if not isinstance(key, Ed25519PrivateKey):
            raise CommandKeyError(_no_key(self._file))
        return key

    def _make(self) -> None:
        """Whole or not at all, and the first of two hubs wins."""
        from cryptography.hazmat.primitives import serialization as form
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        pem = Ed25519PrivateKey.generate().private_bytes(
            form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption()
        )
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            write_private(self._file, pem, replace=False)


def _no_key(file: Path) -> str:
    step = "Move it away: a new one is made, which machines trust once control is switched on anew."
    return f"{file} is no key for commands. {step}"
