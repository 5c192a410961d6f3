"""One host's keys in Redis, as its collector uses them: directly, or through a hub's ingest.

The wire of ingest, for machines that may reach only the hub: a request is `KeysRequest`, its answer
`KeysReply`, both as MessagePack, since what goes through is bytes and is to arrive as it was. Refusals
are JSON as everywhere.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

import msgspec
from redis.exceptions import NoPermissionError, ResponseError

from adsum_shared import streams
from adsum_shared.envelope import MOST_BYTES as MOST_BATCH

PATH = "/ingest"
KIND = "application/msgpack"
#: What a batch may hold, and room for the rest of an entry and a heartbeat.
MOST_BEAT = 256 << 10
#: At once.
MOST_COMMANDS = 16
MOST_BYTES = MOST_BATCH + MOST_BEAT + (64 << 10)

#: The group whose position a collector sets to the end of its stream, and reads in place of entries.
_GROUP = "end"
_DELIVERED = "last-delivered-id"
#: Fields of an entry: its spool and its run.
_AUTHOR = (b"sp", b"n")

#: there: it is in the stream already, as an earlier try of the same run whose answer was lost.
#: moved: others have written since. exhausted: no id can follow the last one.
Added = Literal["new", "there", "moved", "exhausted"]
Reply = Any


class OddReplyError(Exception):
    """Not the answer of a Redis, or not about a key of ours. The text names cause and next step."""


class NewEntry(msgspec.Struct, frozen=True, array_like=True):
    """id: `<incarnation>-<last seq>`. fields: see `envelope`."""

    id: str
    fields: Mapping[bytes, bytes]


class FoundEntry(msgspec.Struct, frozen=True, array_like=True):
    """spool_id, nonce: as they stand there; empty if the entry itself is gone."""

    id: str
    spool_id: bytes = b""
    nonce: bytes = b""


class StoredOffsets(msgspec.Struct, frozen=True, array_like=True):
    """As it stands in the snapshot; None: nothing does."""

    cursor: bytes | None = None
    applied: bytes | None = None
    runs: bytes | None = None


class FoundCommand(msgspec.Struct, frozen=True, array_like=True):
    """fields: see `commands`; nothing is known of them before they are checked."""

    id: str
    fields: Mapping[bytes, bytes]


class KeysRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is to be done and read, in this order, in one go. On the wire of ingest too.

    beat: a heartbeat to write. head, stored, want, last_beat: whether that is to be read. after:
    the first entry beyond this id; empty: beyond none. commands: those beyond this id, awaited for
    wait_s; empty: only where their stream ends just now. That goes with nothing else, on a connection
    that nobody else waits for.

    host_id, server: for ingest. server: which Redis the caller's knowledge is about, as it was told
    last; of another one nothing is done and read.
    """

    add: NewEntry | None = None
    beat: bytes | None = None
    head: bool = False
    after: str | None = None
    stored: bool = False
    want: bool = False
    last_beat: bool = False
    commands: str | None = None
    wait_s: float = 0.0
    host_id: str = ""
    server: str = ""


class KeysReply(msgspec.Struct, omit_defaults=True):
    """What became of it. None or empty: there is none, or it was not asked for.

    end: of the stream of commands. now_ms: the clock of Redis when either was read.
    listed: False: it may not enter itself into the list of hosts, and a hub does that.
    """

    added: Added | None = None
    head: FoundEntry | None = None
    beyond: FoundEntry | None = None
    stored: StoredOffsets = StoredOffsets()
    want: bytes | None = None
    beat: bytes | None = None
    commands: list[FoundCommand] | None = None
    end: str = ""
    now_ms: int = 0
    server: str = ""
    listed: bool = True


encode = msgspec.msgpack.Encoder().encode
#: Both raise ValueError.
decode_request = msgspec.msgpack.Decoder(KeysRequest).decode
decode_reply = msgspec.msgpack.Decoder(KeysReply).decode


class _Command(NamedTuple):
    """name: the field of KeysReply that its answer is for; empty: none. read: makes it of that."""

    name: str
    key: str
    words: tuple[Any, ...]
    read: Callable[[Reply], Any]


async def carry_out(
    client: Any, host_id: str, asked: KeysRequest, *, enlist: bool = True, reads: bool = True
) -> KeysReply:
    """client: of a single connection. enlist: with a heartbeat, into the list of hosts.

    reads: whether its login may read entries and the snapshot. One that machines share may not: it
    reads the stream's last id, and the keys `last` and `stored`.

    Raises OddReplyError, and what the client raises.
    """
    commands = list(_commands(host_id, asked, enlist=enlist, reads=reads))
    replies = await _at_once(client, [each.words for each in commands])
    found: dict[str, Any] = {}
    errors: list[Exception] = []
    for command, reply in zip(commands, replies, strict=True):
        try:
            found[command.name] = _understood(command, reply)
        except (ResponseError, OddReplyError) as error:
            errors.append(error)
    if errors:
        raise errors[0]
    copied, last = found.pop("copied", False), found.pop("last", None)
    if asked.add is not None and found["added"] == "moved" and not copied:
        found["added"] = await _whose(client, host_id, asked.add, reads=reads)
    if last is not None and found["head"] is not None and last.id == found["head"].id:
        found["head"] = last
    found.pop("", None)
    return KeysReply(**found)


def _commands(host_id: str, asked: KeysRequest, *, enlist: bool, reads: bool) -> Iterator[_Command]:
    inbox, beat = streams.inbox(host_id), streams.beat(host_id)
    words: tuple[Any, ...]
    if asked.add is not None:
        yield from _adding(host_id, asked.add, reads=reads)
    if asked.beat is not None:
        words = ("SET", beat, asked.beat, "PX", streams.BEAT_TTL_MS)
        yield _Command("", beat, words, lambda _: None)
        if enlist:
            # Every time: after a FLUSHALL a hub that starts knows nobody but whom it finds there.
            words = ("SADD", streams.HOSTS, host_id)
            yield _Command("listed", streams.HOSTS, words, lambda _: True)
    if asked.head:
        yield from _looking_for_end(host_id, reads=reads)
    if asked.after is not None and reads:
        yield _entry_from(inbox, f"({asked.after}" if asked.after else "-")
    if asked.stored:
        key = streams.snapshot(host_id) if reads else streams.stored(host_id)
        words = ("HMGET", key, streams.CURSOR, streams.APPLIED, streams.RUNS)
        yield _Command("stored", key, words, lambda reply: StoredOffsets(*map(_bytes, reply)))
    if asked.want:
        key = streams.want(host_id)
        yield _Command("want", key, ("GET", key), _bytes)
    if asked.last_beat:
        yield _Command("beat", beat, ("GET", beat), _bytes)
    if asked.commands is not None:
        yield from _awaited(streams.commands(host_id), asked.commands, asked.wait_s)


def _adding(host_id: str, entry: NewEntry, *, reads: bool) -> Iterator[_Command]:
    inbox, last = streams.inbox(host_id), streams.last(host_id)
    pairs = [part for pair in entry.fields.items() for part in pair]
    yield _Command("added", inbox, ("XADD", inbox, entry.id, *pairs), lambda _: "new")
    if not reads:
        author = [part for name in _AUTHOR for part in (name, entry.fields.get(name, b""))]
        words = ("XADD", last, "MAXLEN", 1, entry.id, *author)
        yield _Command("copied", last, words, lambda _: True)


def _looking_for_end(host_id: str, *, reads: bool) -> Iterator[_Command]:
    inbox, last = streams.inbox(host_id), streams.last(host_id)
    if reads:
        yield _Command("head", inbox, ("XINFO", "STREAM", inbox), _head)
        return
    for verb in ("CREATE", "SETID"):
        yield _Command("", inbox, ("XGROUP", verb, inbox, _GROUP, "$"), lambda _: None)
    yield _Command("head", inbox, ("XINFO", "GROUPS", inbox), _end)
    yield _Command("last", last, ("XINFO", "STREAM", last), _head)


def _awaited(key: str, after: str, wait_s: float) -> Iterator[_Command]:
    if not after:
        yield _Command("end", key, ("XINFO", "STREAM", key), lambda reply: _head(reply).id)
        yield _Command("now_ms", key, ("TIME",), ms_of)
        return
    block = max(1, int(wait_s * 1000))  # 0 would be for ever
    words = ("XREAD", "COUNT", MOST_COMMANDS, "BLOCK", block, "STREAMS", key, after)
    yield _Command("commands", key, words, lambda reply: _commands_in(reply[0][1]) if reply else [])
    yield _Command("now_ms", key, ("TIME",), ms_of)


def _commands_in(entries: Reply) -> list[FoundCommand]:
    return [FoundCommand(entry_id.decode(), _paired(flat or ())) for entry_id, flat in entries]


def ms_of(reply: Reply) -> int:
    """Of TIME."""
    seconds, micros = map(int, reply)
    return seconds * 1000 + micros // 1000


def _entry_from(inbox: str, low: str, high: str = "+") -> _Command:
    words = ("XRANGE", inbox, low, high, "COUNT", 1)
    return _Command("beyond", inbox, words, lambda reply: _entry(*reply[0]) if reply else None)


#: Which answers an error may stand for, words of it, and what it means.
_MEANINGS: Final = (
    (("head", "last"), "no such key", None),
    (("end",), "no such key", "0-0"),
    (("",), "BUSYGROUP", None),
    (("",), "requires the key to exist", None),
    (("added",), "exhausted", "exhausted"),
    (("added",), "equal or smaller", "moved"),
    (("copied",), "exhausted", False),
    (("copied",), "equal or smaller", False),
)


def _understood(command: _Command, reply: Reply) -> Any:
    """Raises ResponseError, OddReplyError: what answers may be no Redis, or lies there for others."""
    try:
        if not isinstance(reply, ResponseError):
            return command.read(reply)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise OddReplyError(makes_no_sense(command.key, error)) from error
    text = str(reply)
    if command.name == "listed" and isinstance(reply, NoPermissionError):
        return False  # a hub, or the operator, has added the host
    for names, words, meaning in _MEANINGS:
        if command.name in names and words in text:
            return meaning
    if text.startswith("WRONGTYPE"):
        raise OddReplyError(
            f"something else was written under the key {command.key}. Look at what it is; once it is "
            f"removed (redis-cli DEL '{command.key}') this mends itself."
        ) from reply
    raise reply


def makes_no_sense(what: str, error: Exception) -> str:
    return (
        f"the answer about {what} makes no sense ({type(error).__name__}: {error}). "
        "Look whether that address is a Redis."
    )


def _head(reply: Reply) -> FoundEntry:
    info = _paired(reply)
    last = info.get("last-generated-id") or info[b"last-generated-id"]
    entry = info.get("last-entry") or info.get(b"last-entry")
    ours = FoundEntry(last.decode())
    there = _entry(*entry) if entry else ours
    return there if there.id == ours.id else ours


def _end(reply: Reply) -> FoundEntry | None:
    """Of XINFO GROUPS."""
    for info in map(_paired, reply):
        if (info.get("name") or info[b"name"]) == _GROUP.encode():
            return FoundEntry((info.get(_DELIVERED) or info[_DELIVERED.encode()]).decode())
    raise LookupError(_GROUP)


def _entry(entry_id: bytes, flat: Any) -> FoundEntry:
    fields = _paired(flat or ())
    return FoundEntry(entry_id.decode(), fields.get(b"sp", b""), fields.get(b"n", b""))


def _paired(flat: Any) -> dict[Any, Any]:
    return flat if isinstance(flat, dict) else dict(zip(flat[::2], flat[1::2], strict=True))


def _bytes(reply: Reply) -> bytes | None:
    if reply is None or isinstance(reply, bytes):
        return reply
    raise TypeError(f"{type(reply).__name__} in place of text")


async def _whose(client: Any, host_id: str, entry: NewEntry, *, reads: bool) -> Added:
    """Redis itself refuses an id that is not above all others.

    Where an earlier try of this run arrived and only its answer was lost, all is well. A copy of
    this machine counts as we do and may have taken the very same id: its run has another nonce.
    """
    last = streams.last(host_id)
    command = _entry_from(streams.inbox(host_id), entry.id, entry.id)
    if not reads:
        command = _Command("last", last, ("XINFO", "STREAM", last), _head)
    [reply] = await _at_once(client, [command.words])
    ours = FoundEntry(entry.id, *(entry.fields.get(name, b"") for name in _AUTHOR))
    return "there" if _understood(command, reply) == ours else "moved"


async def _at_once(client: Any, commands: Sequence[Sequence[Any]]) -> list[Reply]:
    """One round trip on the client's own connection; a refusal stands in place of its answer.

    A pipeline of the library would take another connection from the pool than the client's, and one
    that breaks must not be mended without a word: see `Publisher._connection`.
    """
    await client.initialize()
    connection = client.connection
    if connection is not None:
        await connection.send_packed_command(connection.pack_commands(commands))
    replies: list[Reply] = []
    for words in commands:
        try:
            if connection is not None:
                replies.append(await connection.read_response())
            else:  # of a cluster: each command finds its node
                replies.append(await client.execute_command(*words))
        except ResponseError as error:
            replies.append(error)
    return replies
