"""Decodes a hook's body lazily: one field at a time, the rest stays raw bytes."""

import json
import re
from typing import Any, TypeVar, cast

import msgspec

from adsum_collector.agents.records import NAME_MAX

T = TypeVar("T")

#: Of a text that is kept as it comes.
TEXT_MAX = 4096

UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

#: What is larger is read only as far as somebody asks: a million keys would take two seconds, of
#: which msgspec gives no other thread a moment. To pass over them takes it some 50 ms.
LARGE = 64 << 10
#: Of a large list, from its beginning. More than any list of which somebody reads the items.
LARGE_ITEMS = 256
#: What is read of a large body.
BODY_FIELDS = (
    *("session_id", "hook_event_name", "agent_id", "agent_type", "prompt_id", "permission_mode"),
    *("cwd", "new_cwd", "transcript_path", "session_title", "model", "to_model", "source"),
    *("reason", "prompt", "last_assistant_message", "error_details", "error", "message"),
    *("trigger", "action"),
    *("notification_type", "mcp_server_name", "permission_suggestions", "is_interrupt"),
    *("background_tasks", "session_crons", "tool_calls", "tool_name", "tool_use_id", "tool_input"),
    *("tool_response", "task_id", "task_subject", "teammate_name", "team_name"),
)
#: Of a large tool input, and of a task. Who is asked about such an input sees these.
INPUT_FIELDS = (
    *("description", "command", "query", "url", "pattern", "prompt", "text", "name", "subject"),
    *("file_path", "notebook_path", "path", "skill", "plan", "questions", "answers", "content"),
    *("edits", "old_string", "new_string", "new_source", "id", "task_id", "taskId", "shell_id"),
    *("type", "status", "subagent_type", "run_in_background", "timeout", "schedule"),
)
#: Of a tool's large answer, and of a large call in a batch.
ANSWER_FIELDS = (
    *("agentId", "status", "backgroundTaskId", "answers", "task", "tool_use_id", "tool_name"),
    *("scheduledFor", "stopped", "askUser"),
)

_fields: msgspec.json.Decoder[dict[str, msgspec.Raw]] = msgspec.json.Decoder(dict[str, msgspec.Raw])


def _only(fields: tuple[str, ...]) -> msgspec.json.Decoder[msgspec.Struct]:
    given = [(field, msgspec.Raw, msgspec.Raw()) for field in fields]
    return msgspec.json.Decoder(msgspec.defstruct("_Only", given))


_large_body, _large_input, _large_answer = map(_only, (BODY_FIELDS, INPUT_FIELDS, ANSWER_FIELDS))
# What is an array beyond its fields is passed over, as no list's surplus is.
_large_items = msgspec.json.Decoder(
    msgspec.defstruct(
        "_LargeItems",
        [(f"item{at}", msgspec.Raw, msgspec.Raw()) for at in range(LARGE_ITEMS)],
        array_like=True,
    )
)
# A half of a character that JSON writes in two escapes; whole ones and other escapes are skipped.
_HALF = re.compile(
    rb"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)


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
        return None if raw is None else lenient_part(raw, kind)

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
    except UNDECODABLE:
        return None


def lenient_part(raw: msgspec.Raw | bytes, kind: type[T]) -> T | None:
    """As lenient; of what is LARGE, the part that somebody asks for."""
    if len(raw) <= LARGE:
        return lenient(raw, kind)
    try:
        return cast("T | None", _part(raw, kind))
    except UNDECODABLE:
        return None


def _part(raw: msgspec.Raw | bytes, kind: Any) -> Any:
    if kind == dict[str, msgspec.Raw]:
        return _some_fields(raw, _large_answer)
    if kind == dict[str, Any]:
        values = {name: value_in(value) for name, value in _some_fields(raw, _large_input).items()}
        return {name: value for name, value in values.items() if value is not None}
    if kind == list[msgspec.Raw]:
        return [item for item in msgspec.structs.astuple(_large_items.decode(raw)) if len(item)]
    return None if kind == list[Any] else msgspec.json.decode(raw, type=kind)


def _some_fields(
    raw: msgspec.Raw | bytes, decoder: msgspec.json.Decoder[msgspec.Struct]
) -> dict[str, msgspec.Raw]:
    found = msgspec.structs.asdict(decoder.decode(raw))
    return {name: value for name, value in found.items() if len(value)}


def value_in(raw: msgspec.Raw) -> object:
    """Of a large object's field: all of it, or nothing if it is itself a large object or list."""
    return lenient(raw, str) if len(raw) > LARGE else lenient(raw, cast("type[Any]", Any))


def decode_hook(raw: bytes) -> HookBody:
    """Raises HookError, and nothing else, if this cannot be a hook's body."""
    try:
        fields = decode_fields(raw) if len(raw) <= LARGE else _large_hook(raw)
    except (ValueError, msgspec.DecodeError, RecursionError) as error:
        raise HookError(f"the body is not a JSON object: {error}") from error
    return HookBody(_required(fields, "session_id"), _required(fields, "hook_event_name"), fields)


def decode_fields(raw: bytes) -> dict[str, msgspec.Raw]:
    """A JSON object's fields, each undecoded. Raises ValueError.

    The CLI cuts texts between the halves of an emoji, and msgspec refuses the half that is left.
    """
    try:
        return _fields.decode(raw)
    except UNDECODABLE as error:
        try:
            text = json.dumps(json.loads(raw), ensure_ascii=False)
            return _fields.decode(text.encode(errors="replace"))
        except (ValueError, RecursionError):
            raise ValueError(str(error)) from error


def _large_hook(raw: bytes) -> dict[str, msgspec.Raw]:
    try:
        return _some_fields(raw, _large_body)
    except UNDECODABLE:
        return _some_fields(_HALF.sub(_mended, raw), _large_body)


def _mended(half: re.Match[bytes]) -> bytes:
    return b"\\ufffd" if half[1] else half[0]


def _required(fields: dict[str, msgspec.Raw], name: str) -> str:
    if name not in fields:
        raise HookError(f"`{name}` is missing")
    value = lenient(fields[name], str)
    if not value:
        raise HookError(f"`{name}` must be a non-empty string")
    return value[:NAME_MAX]  # an id that long is none; the intake says so
