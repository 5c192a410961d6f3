"""A channel sends messages by push or by a service that apprise knows; marks keep what was sent."""

import asyncio
import logging
import re
import secrets
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from adsum_hub.clock import Clock
from adsum_hub.notify.messages import Notification
from adsum_hub.notify.rules import Channel
from adsum_shared import streams
from adsum_shared.connect import Redis

log = logging.getLogger(__name__)


#: Failures in a row from which on a channel is a trouble of the hub's; fewer may be a moment's.
FAILING = 3


class Outcome(NamedTuple):
    """error: None = told. It holds no secret. again_s: the least to wait; None: the usual."""

    error: str | None = None
    again_s: float | None = None


class Health(msgspec.Struct):
    """How a channel has fared since this hub started. sent, failed: tries. dropped: given up, or left out as too many.

    in_row: failures since a success. Times: hub clock, ms. error: the last one, for people,
    without a secret. logged: the log knows that it keeps failing.
    """

    sent: int = 0
    failed: int = 0
    dropped: int = 0
    in_row: int = 0
    sent_at: int | None = None
    failed_at: int | None = None
    error: str | None = None
    logged: bool = False

    def went_well(self, now: int) -> None:
        self.sent += 1
        self.in_row = 0
        self.sent_at = now

    def went_wrong(self, error: str, now: int) -> None:
        self.failed += 1
        self.in_row += 1
        self.failed_at = now
        self.error = error

    def log_change(self, channel: str) -> None:
        """One line when it begins to keep failing, one when that is over: a page keeps neither."""
        failing = self.in_row >= FAILING
        if failing and not self.logged:
            log.warning("channel %s keeps failing: %s", channel, self.error)
        elif self.logged and not failing:
            log.info("channel %s gets through again", channel)
        self.logged = failing


Stands = Callable[[], bool]


def always() -> bool:
    return True


class Sender(Protocol):
    """What every channel is to the notifier."""

    health: Health

    async def name(self) -> str | None:
        """What claims call it; the same in every hub that speaks here. None: nobody listens."""

    async def send(self, message: Notification, stands: Stands = always, /) -> Outcome:
        """Comes back within SEND_S, whatever the other side does. Raises what Redis raises.

        stands: whether anybody is still to hear of it, asked again before a try that comes later.
        """


#: Shorter than a claim holds.
SEND_S = 40.0


#: apprise's own time-outs are 4 s to connect and 4 s to read, for each request of a message.
WAIT_S = 20.0
HUNG = "The message before this one still hangs. See whether the service answers this machine."
UNKNOWN = (
    "apprise does not know what its `url` means. Look the service up in apprise's documentation, "
    "then correct the [[channel]] and restart the hub."
)
_STATUS = re.compile(r"error=(\d{3})\b")


class Statuses(logging.Handler):
    """HTTP statuses that apprise logs. All else it logs may hold a secret and goes nowhere."""

    def __init__(self) -> None:
        super().__init__()
        self._found: dict[int, str] = {}

    def emit(self, record: logging.LogRecord) -> None:
        status = _STATUS.search(record.getMessage())
        if status and record.thread is not None:
            self._found[record.thread] = status[1]

    def take(self) -> str | None:
        """What this very thread was answered."""
        return self._found.pop(threading.get_ident(), None)


_statuses = Statuses()


class AppriseSender:
    """A service that apprise knows: asked in a thread, for a limited time, one message at a time."""

    def __init__(self, channel: Channel, clock: Clock) -> None:
        self.health = Health()
        self.channel, self._clock = channel, clock
        #: not whether its thread lives: one that has answered may take a moment to end
        self._busy = False

    async def name(self) -> str | None:
        return self.channel.name

    async def check(self) -> None:
        """Says early what would else be found out with the first message that matters."""
        error = await self._ask(None)
        if error is not None:
            self.health.went_wrong(error, self._clock())
            if error == UNKNOWN:
                self.health.in_row = FAILING  # no later try can go well
                self.health.log_change(self.channel.name)
            else:
                log.warning("channel %s: %s", self.channel.name, error)

    async def send(self, message: Notification, _stands: Stands = always, /) -> Outcome:
        error = await self._ask(message)
        if error is None:
            self.health.went_well(self._clock())
        else:
            self.health.went_wrong(error, self._clock())
        return Outcome(error)

    async def _ask(self, message: Notification | None) -> str | None:
        """One thread per channel, and a daemon: one that hangs keeps neither others nor the end."""
        if self._busy:
            return HUNG
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[str | None] = loop.create_future()

        def settle(error: str | None) -> None:
            self._busy = False
            if not answered.done():
                answered.set_result(error)

        def work() -> None:
            error = _send(self.channel.url or "", message)
            try:
                loop.call_soon_threadsafe(settle, error)
            except RuntimeError:
                return  # the hub has ended meanwhile

        threading.Thread(target=work, name=self.channel.name, daemon=True).start()
        self._busy = True
        try:
            return await asyncio.wait_for(answered, WAIT_S)
        except TimeoutError:
            return f"The service did not answer within {WAIT_S:.0f} s."


def _send(url: str, message: Notification | None) -> str | None:
    """The error, if any; without a message only that of the URL. Runs in a thread."""
    try:
        from apprise import Apprise, AppriseAsset, NotifyFormat

        _silence()
        # In this thread, which is waited for only so long: those of its own are waited for at the
        # hub's end, and nobody would know whose status it was that they log.
        asset = AppriseAsset(app_id="Adsum", async_mode=False, service_timeout=0)
        apprise = Apprise(asset=asset)
        if not apprise.add(url):
            return UNKNOWN
        _statuses.take()
        if message is None or apprise.notify(
            body=message.body, title=message.title, body_format=NotifyFormat.TEXT
        ):
            return None
    except Exception as error:  # noqa: BLE001 - 170 plug-ins by other hands; and its words may hold
        # the URL, so only its kind is told
        return f"apprise failed at this service ({type(error).__name__})."
    status = _statuses.take()
    return (
        f"The service answered {status}. See whether its key and address are still good."
        if status
        else "The service could not be reached. See whether this machine gets there."
    )


def _silence() -> None:
    """What these libraries log holds addresses, and an address is a secret here."""
    logger = logging.getLogger("apprise")
    logger.handlers = [_statuses]
    logger.propagate = False
    logger.disabled = False
    logger.setLevel(logging.WARNING)
    for name in ("urllib3", "requests_oauthlib", "oauthlib"):
        logging.getLogger(name).setLevel(logging.ERROR)


TOLD = b"told"
_CHUNK = 500


class SentMarks:
    """Which cases were sent, in Redis: two hubs do not both send one, and a restart repeats none.

    A claim lapses by itself: a hub that dies over a message leaves it to the others.

    If it dies between a message and its mark, that message is told twice. Rejected: to mark before
    sending, which would swallow it instead.
    """

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self.me = secrets.token_hex(8).encode()

    async def begin(self, rules: Iterable[str], now: int) -> dict[str, int]:
        """Rule id -> since when there is such a rule; `now` for one that is not known yet."""
        begun: dict[str, int] = {}
        for rule in rules:
            key, ttl = streams.notify_rule(rule), streams.NOTIFY_KEEP_MS
            if not await self._redis.set(key, now, nx=True, px=ttl):
                await self._redis.pexpire(key, ttl)
            stored = await self._redis.get(key)
            begun[rule] = int(stored) if stored is not None and stored.isdigit() else now
        return begun

    async def claim(self, marks: Sequence[str]) -> list[bytes | None]:
        """What stands there: `me`, TOLD, or another hub, whose claim is free after NOTIFY_CLAIM_MS."""
        await self._each(marks, "set", self.me, nx=True, px=streams.NOTIFY_CLAIM_MS)
        return await self._each(marks, "get")

    async def mark_sent(self, marks: Sequence[str]) -> None:
        await self._each(marks, "set", TOLD, px=streams.NOTIFY_KEEP_MS)

    async def free(self, marks: Sequence[str]) -> None:
        """Gives claims back, and removes marks of what may be sent again."""
        await self._each(marks, "delete")  # in a cluster no one DEL takes them all

    async def _each(
        self, marks: Sequence[str], command: str, *given: Any, **named: Any
    ) -> list[Any]:
        """The replies to one command for the key of each mark."""
        replies: list[Any] = []
        for start in range(0, len(marks), _CHUNK):
            pipeline = self._redis.pipeline(transaction=False)
            for mark in marks[start : start + _CHUNK]:
                getattr(pipeline, command)(streams.notify_mark(mark), *given, **named)
            replies += await pipeline.execute()
        return replies
