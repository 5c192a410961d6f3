"""The body of a hook, decoded as far as anybody asks: one field at a time, the rest as raw bytes."""

from __future__ import annotations

import json
from typing import TypeVar

import msgspec

T = TypeVar("T")

#: Of a text that is kept as it comes, and of a name: a tool's, a kind's, an id.
TEXT_MAX = 4096
NAME_MAX = 256

_fields: msgspec.json.Decoder[dict[str, msgspec.Raw]] = msgspec.json.Decoder(dict[str, msgspec.Raw])


class HookError(ValueError):
    """A body that is no hook's: it is not JSON, or does not say whose hook it is."""


class HookBody(msgspec.Struct, frozen=True):
    """What a hook sent. Tool inputs and outputs can be megabytes and stay undecoded here."""

    session_id: str
    event: str
    fields: dict[str, msgspec.Raw]

    def get(self, name: str, kind: type[T]) -> T | None:
        """The field, or None if it is missing or of another type.

        The CLI adds and changes fields from one release to the next. One that has changed its
        type must not lose the event.
        """
        raw = self.fields.get(name)
        return None if raw is None else lenient(raw, kind)

    def text(self, name: str) -> str | None:
        return (self.whole(name) or "")[:TEXT_MAX] or None

    def name(self, name: str) -> str | None:
        return (self.whole(name) or "")[:NAME_MAX] or None

    def whole(self, name: str) -> str | None:
        """However long: for who cuts it."""
        return self.get(name, str) or None

    def raw(self, name: str) -> bytes:
        raw = self.fields.get(name)
        return b"" if raw is None else bytes(raw)


def lenient(raw: msgspec.Raw | bytes, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def decode_hook(raw: bytes) -> HookBody:
    """Raises HookError, and nothing else, if this cannot be a hook's body."""
    try:
        fields = decode_fields(raw)
    except ValueError as error:
        raise HookError(f"the body is not a JSON object: {error}") from error
    return HookBody(_required(fields, "session_id"), _required(fields, "hook_event_name"), fields)


def decode_fields(raw: bytes) -> dict[str, msgspec.Raw]:
    """A JSON object's fields, each undecoded. Raises ValueError.

    The CLI cuts texts between the halves of an emoji, and msgspec refuses the half that is left.
    """
    try:
        return _fields.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        try:
            text = json.dumps(json.loads(raw), ensure_ascii=False)
            return _fields.decode(text.encode(errors="replace"))
        except (ValueError, RecursionError):
            raise ValueError(str(error)) from error


def _required(fields: dict[str, msgspec.Raw], name: str) -> str:
    if name not in fields:
        raise HookError(f"`{name}` is missing")
    value = lenient(fields[name], str)
    if not value or len(value) > NAME_MAX:
        raise HookError(f"`{name}` must be a non-empty string of at most {NAME_MAX} characters")
    return value
