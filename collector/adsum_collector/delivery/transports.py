"""The transport contract, by which signals get to hubs, and the transport by Redis."""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
from collections.abc import AsyncIterator, Mapping
from typing import Any, Literal, NamedTuple, Protocol
from urllib.parse import urlsplit

import h11
import msgspec
from redis.exceptions import NoPermissionError

from adsum_collector.delivery.resume import EntryId, Head, HubProgress
from adsum_collector.errors import HubError, StreamMovedError, StreamUnusableError
from adsum_shared import host_keys, streams
from adsum_shared.connect import UNAVAILABLE, open_redis, require_recent
from adsum_shared.envelope import Beat, decode_beat
from adsum_shared.host_keys import (
    KIND,
    PATH,
    FoundEntry,
    KeysReply,
    KeysRequest,
    NewEntry,
    OddReplyError,
    carry_out,
    decode_reply,
    encode,
    makes_no_sense,
)
from adsum_shared.redis_url import address_of
from adsum_shared.tls import Renewed, in_chain, trusted_file, wrong_tls


class TransportConnection(Protocol):
    """One connection, one request at a time. What it raises ends it."""

    async def ask(self, host_id: str, asked: KeysRequest) -> KeysReply:
        """Raises OddReplyError, HubError, and what is in `connect.UNAVAILABLE`."""
        ...


class Transport(Protocol):
    """place: what it leads to, for people, such as `Redis at redis://127.0.0.1:6379`."""

    @property
    def via(self) -> Literal["hub"] | None: ...

    @property
    def place(self) -> str: ...

    def open(self) -> contextlib.AbstractAsyncContextManager[TransportConnection]:
        """Raises BrokerTooOldError, and as `TransportConnection.ask`."""
        ...


class RedisConnection:
    def __init__(self, client: Any) -> None:
        self._client = client
        self._enlist = self._reads = True

    async def ask(self, host_id: str, asked: KeysRequest) -> KeysReply:
        try:
            told = await self._carry_out(host_id, asked)
        except NoPermissionError:
            if not self._reads:
                raise
            self._reads = False  # the login is one that machines share
            told = await self._carry_out(host_id, asked)
        # Not every two seconds what is refused each time: Redis notes that.
        self._enlist = told.listed
        return told

    async def _carry_out(self, host_id: str, asked: KeysRequest) -> KeysReply:
        return await carry_out(self._client, host_id, asked, enlist=self._enlist, reads=self._reads)


class RedisTransport:
    via = None

    def __init__(self, url: str) -> None:
        self._url = url
        self.place = f"Redis at {address_of(url)}"

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[TransportConnection]:
        pool = open_redis(self._url)
        # The pool would mend a broken connection without a word, and the broker behind the new one
        # may have lost what we sent: this client keeps to one connection and fails with it.
        client = pool.client()
        try:
            await _require_recent(client)
            yield RedisConnection(client)
        finally:
            for each in (client, pool):
                with contextlib.suppress(*UNAVAILABLE):
                    await each.aclose()


async def _require_recent(client: Any) -> None:
    try:
        require_recent(await client.info("server"))
    except NoPermissionError:
        pass  # a locked-down user need not see it
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise OddReplyError(makes_no_sense("its version", error)) from error


_applied = msgspec.json.Decoder(dict[str, int])
_runs = msgspec.json.Decoder(dict[str, dict[str, int]])
_CURSOR = re.compile(rb"\d{1,20}-\d{1,20}")


class StreamLook(NamedTuple):
    """other: the first entry beyond one of ours. want: a hub's request to replay, if there is one."""

    other: Head | None
    stored: HubProgress
    want: bytes | None


class Inbox:
    """Every method raises what `TransportConnection.ask` does."""

    def __init__(self, line: TransportConnection, host_id: str) -> None:
        self._line = line
        self.key = streams.inbox(host_id)
        self._host_id = host_id
        self._carried: bytes | None = None

    async def head(self) -> Head | None:
        """None if there is no stream."""
        return self._head((await self._ask(KeysRequest(head=True))).head)

    async def stored(self, spool_id: str) -> HubProgress:
        """Foreign values in it count as if no hub had stored anything."""
        return _stored((await self._ask(KeysRequest(stored=True))).stored, spool_id)

    async def look(
        self, spool_id: str, after: EntryId | None, *, others: bool = True
    ) -> StreamLook:
        """others: whether entries beyond `after` matter: somebody else's, or of an earlier try."""
        beyond = None if not others else str(after) if after else ""
        told = await self._ask(KeysRequest(after=beyond, stored=True, want=True))
        return StreamLook(self._head(told.beyond), _stored(told.stored, spool_id), told.want)

    async def add(self, entry: EntryId, fields: Mapping[bytes, bytes]) -> None:
        """Raises StreamMovedError, StreamUnusableError."""
        told = await self._ask(KeysRequest(add=NewEntry(str(entry), fields)))
        if told.added == "exhausted":
            raise StreamUnusableError(self.key)
        if told.added == "moved":
            raise StreamMovedError
        if told.added not in ("new", "there"):
            raise OddReplyError(
                f"the answer about {self.key} does not say whether it took what was sent "
                f"({told.added!r}). Upgrade the hub, or look at what stands before it."
            )

    async def beat(self, beat: bytes) -> None:
        """And have ourselves listed."""
        await self._ask(KeysRequest(beat=beat))

    def carry(self, beat: bytes) -> None:
        """As `beat`, along with whatever is asked next."""
        self._carried = beat

    async def last_beat(self) -> Beat | None:
        """The heartbeat that stands there, whoever wrote it."""
        raw = (await self._ask(KeysRequest(last_beat=True))).beat
        return None if raw is None else decode_beat(raw)

    async def _ask(self, asked: KeysRequest) -> KeysReply:
        if self._carried is not None:
            asked = msgspec.structs.replace(asked, beat=self._carried)
            self._carried = None
        return await self._line.ask(self._host_id, asked)

    def _head(self, found: FoundEntry | None) -> Head | None:
        if found is None:
            return None
        try:
            entry = EntryId.parse(found.id)
        except ValueError as error:
            raise OddReplyError(
                f"the answer about {self.key} names no entry ({found.id[:40]!r}). "
                "Look whether that address is a Redis."
            ) from error
        spool_id, nonce = found.spool_id, found.nonce
        return Head(entry, spool_id.decode(errors="replace"), nonce.decode(errors="replace"))


def _stored(raw: host_keys.StoredOffsets, spool_id: str) -> HubProgress:
    return HubProgress(
        EntryId.parse(raw.cursor)
        if raw.cursor and _CURSOR.fullmatch(raw.cursor)
        else EntryId(0, 0),
        max(0, _decoded(_applied, raw.applied).get(spool_id, 0)),
        _decoded(_runs, raw.runs).get(spool_id, {}),
    )


def _decoded(decoder: msgspec.json.Decoder[Any], raw: bytes | None) -> Any:
    try:
        return decoder.decode(raw or b"{}")
    except msgspec.DecodeError:
        return {}


#: What only people can mend is not tried every second: each try costs a hub, and most, a handshake.
PEOPLE_S = 5.0
#: Between two batches: a hub does for each what a Redis does in a tenth of the time.
PACE_S = 0.01
#: The longest that a hub, or a proxy before it, may have us wait.
MOST_WAIT_S = 60.0
CONNECT_S = 4.0
#: Longer than a hub gives its Redis.
ANSWER_S = 8.0
#: Bytes a second at which a batch may still go.
SLOWEST = 16 << 10
#: Of an answer; ours have a few kB.
MOST_BYTES = 8 << 20
CHUNK = 1 << 16
#: What goes wrong on the way. A TLS error is an OSError.
BROKEN = (OSError, EOFError, h11.ProtocolError)

TRUST = "a file with the certificate of your own authority"


class HubPlace(NamedTuple):
    """secret: the machine's credential. ca: a file with who may have signed for the hub."""

    url: str
    secret: str
    ca: str | None = None


class HubTransport:
    via: Literal["hub"] = "hub"

    def __init__(self, hub: HubPlace) -> None:
        self._hub = hub
        self._tls = Renewed((hub.ca or trusted_file(),), self._trusting, HubError)
        self.place = f"the hub at {hub.url}"

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[HubConnection]:
        """Raises HubError."""
        tls = self._tls.context() if self._hub.url.startswith("https:") else None
        http = HttpConnection(self._hub.url, tls)
        try:
            yield HubConnection(http, self._hub)
        finally:
            await http.close()

    def _trusting(self) -> ssl.SSLContext:
        try:
            return ssl.create_default_context(cafile=self._hub.ca)
        except OSError as error:
            why = error.strerror or "it holds no certificate"
            raise HubError(
                f"{self._hub.ca}, which is to say who may have signed for {self.place}, cannot "
                f"be used ({why}). Put it back, or join again with --ca FILE, {TRUST}.",
                PEOPLE_S,
            ) from error


class Http(Protocol):
    async def post(self, path: str, headers: dict[str, str], body: bytes) -> Answer:
        """Raises what is in BROKEN."""
        ...


class HubConnection:
    def __init__(self, http: Http, hub: HubPlace) -> None:
        self._http = http
        self._url = hub.url
        self._headers = {"authorization": f"Bearer {hub.secret}", "content-type": KIND}
        self._server = ""
        self._adds_from = 0.0

    async def ask(self, host_id: str, asked: KeysRequest) -> KeysReply:
        if asked.add is not None:
            await self._pace()
        asked = msgspec.structs.replace(asked, host_id=host_id, server=self._server)
        try:
            status, headers, raw = await self._http.post(PATH, self._headers, encode(asked))
        except BROKEN as error:
            raise away(self._url, error) from error
        if status != 200:
            raise refusal(self._url, status, headers, raw)
        try:
            told = decode_reply(raw)
        except (ValueError, RecursionError) as error:
            raise HubError(
                f"What answers at {self._url} is no hub of Adsum, or a proxy that spoils what it "
                f"carries ({error}). Look at what stands before the hub.",
                PEOPLE_S,
            ) from error
        known, self._server = self._server, told.server
        if known not in ("", told.server):
            # As a broken connection to Redis: what lies there now may be older than what we know.
            raise HubError(f"The hub at {self._url} uses another Redis, or one that was restarted.")
        return told

    async def _pace(self) -> None:
        """Signals that come one by one and quickly gather meanwhile; a lone one does not wait."""
        now = asyncio.get_running_loop().time()
        if self._adds_from > now:
            await asyncio.sleep(self._adds_from - now)
        self._adds_from = max(now, self._adds_from) + PACE_S


def away(url: str, error: Exception) -> HubError:
    tls = in_chain(error)
    if tls is not None:
        return HubError(wrong_tls(urlsplit(url).hostname or url, tls), PEOPLE_S)
    why = str(error) or type(error).__name__
    return HubError(
        f"The hub at {url} cannot be reached ({why}). Does it run, and does a firewall let this "
        "machine through?"
    )


def refusal(url: str, status: int, headers: Mapping[str, str], raw: bytes) -> HubError:
    """In words, with the next step; the hub's own where it gives some."""
    wait_s, said = _wait_s(headers), _said(raw)
    if status == 401:
        text = (
            f"The hub at {url} lets this machine in no more: {said or 'HTTP 401.'} It was revoked, "
            "reset or forgotten: `adsum hosts` on the hub's machine says so. To let it in again: "
            "adsum join --again, by a new token."
        )
        return HubError(text, max(wait_s, PEOPLE_S), refused=True)
    if status == 413:
        text = (
            f"The hub at {url}, or a proxy before it, takes no batch of this size (HTTP 413). "
            "Raise the proxy's limit to 9 MB: for nginx, client_max_body_size 9m."
        )
        return HubError(text, max(wait_s, PEOPLE_S), refused=True)
    if status == 429:
        return HubError(
            f"The hub at {url} is asked too often: {said or 'HTTP 429. This mends itself.'} If it "
            "lasts, look whether a copy of this machine runs.",
            max(wait_s, 1.0),
            refused=True,
        )
    if said:
        people = PEOPLE_S if 400 <= status < 500 else 0.0
        return HubError(f"The hub at {url}: {said}", max(wait_s, people), refused=status < 500)
    if status in (404, 405):
        why = "it is older and takes no signals, or something else answers there. Upgrade it, or"
        why += " look at the address"
        return HubError(f"The hub at {url} answered HTTP {status}: {why}.", PEOPLE_S, refused=True)
    step = "Something else answers there, or a proxy before a hub that does not run: look at those."
    text = f"The hub at {url} answered HTTP {status}. {step}"
    return HubError(text, wait_s if status >= 500 else PEOPLE_S, refused=True)


def _wait_s(headers: Mapping[str, str]) -> float:
    try:
        return min(MOST_WAIT_S, max(0.0, float(headers.get("retry-after", "0"))))
    except ValueError:
        return 0.0  # a date


class _Refused(msgspec.Struct):
    error: str
    next: str = ""


def _said(raw: bytes) -> str:
    try:
        said = msgspec.json.decode(raw, type=_Refused)
    except (ValueError, RecursionError):
        return ""
    return f"{said.error} {said.next}".strip()[:1000]


class Answer(NamedTuple):
    """headers: by name in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


class HttpConnection:
    """url: without a path. Every method raises what is in BROKEN; then it is of no more use."""

    def __init__(self, url: str, tls: ssl.SSLContext | None) -> None:
        parts = urlsplit(url)
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if tls else 80)
        self._named = parts.netloc
        self._tls = tls
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._http = h11.Connection(h11.CLIENT)

    async def post(self, path: str, headers: dict[str, str], body: bytes) -> Answer:
        reader, writer = await self._open()
        length = {"host": self._named, "content-length": str(len(body))}
        request = h11.Request(method="POST", target=path, headers=[*(length | headers).items()])
        parts = (self._http.send(request), self._http.send(h11.Data(body)))
        end = self._http.send(h11.EndOfMessage())
        try:
            writer.write(b"".join(part for part in (*parts, end) if part))
        except RuntimeError as error:  # uvloop's, of a transport that closed a moment ago
            raise EOFError("Connection lost.") from error
        try:
            async with asyncio.timeout(ANSWER_S + len(body) / SLOWEST):
                await writer.drain()
                answer = await self._read(reader)
        except TimeoutError as error:
            raise TimeoutError("no answer within the time") from error
        done = self._http.our_state is h11.DONE and self._http.their_state is h11.DONE
        # What came beyond it would pass for the next answer.
        if done and not self._http.trailing_data[0]:
            self._http.start_next_cycle()
        else:
            await self.close()
        return answer

    async def close(self) -> None:
        streams, self._streams = self._streams, None
        self._http = h11.Connection(h11.CLIENT)
        if streams is not None:
            streams[1].transport.abort()

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is not None:
            reader, writer = self._streams
            broken = reader.at_eof() or reader.exception() is not None or writer.is_closing()
            if broken or await _has_more(reader):
                await self.close()  # an idle connection was closed, as servers do
        if self._streams is None:
            name = self._host if self._tls else None
            try:
                async with asyncio.timeout(CONNECT_S):
                    self._streams = await asyncio.open_connection(
                        self._host, self._port, ssl=self._tls, server_hostname=name
                    )
            except TimeoutError as error:
                raise TimeoutError("it does not answer") from error
        return self._streams

    async def _read(self, reader: asyncio.StreamReader) -> Answer:
        head: h11.Response | None = None
        body = b""
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                chunk = await reader.read(CHUNK)
                if not chunk and head is None:
                    raise EOFError("closed before it answered")
                self._http.receive_data(chunk)
            elif isinstance(event, h11.Response):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > MOST_BYTES:
                    raise OSError("its answer has no end")
            elif isinstance(event, h11.EndOfMessage):
                break
            elif isinstance(event, h11.ConnectionClosed):
                raise EOFError("closed before it answered")
        if head is None:
            raise EOFError("closed before it answered")
        named = {name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers}
        return Answer(head.status_code, named, body)


async def _has_more(reader: asyncio.StreamReader) -> bool:
    """Of a line at rest: what comes unasked, as a proxy's word of a time-out, answers nothing."""
    try:
        async with asyncio.timeout(0):
            await reader.read(1)
    except TimeoutError:
        return False
    except OSError:  # it breaks in this moment
        return True
    return True
