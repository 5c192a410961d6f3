"""Web Push: one encrypted message to each browser that asked for them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from email.utils import parsedate_to_datetime
from typing import NamedTuple

import httpx

from adsum_hub.clock import Clock
from adsum_hub.notify.sealing import encrypted
from adsum_hub.notify.speaking import SAY_S, Health, Outcome
from adsum_hub.notify.subscriptions import Subscription, Subscriptions, leads_home
from adsum_hub.notify.vapid import PushKey, PushKeyError
from adsum_hub.notify.words import Message
from adsum_shared.connect import UNAVAILABLE, wanted

log = logging.getLogger(__name__)

POST_S = 10.0
AT_ONCE = 10
#: A phone that was off for longer is told by the page itself when it is opened.
TTL_S = 12 * 3600
#: For browsers that could not be told when others were. Then the oldest is dropped.
MOST_WAITING = 500
MOST_TRIES = 5
FIRST_AGAIN_S = 5.0
MOST_AGAIN_S = 600.0
LOOK_S = 1.0
GONE = frozenset({404, 410})


class Late(NamedTuple):
    subscription: Subscription
    message: Message
    tries: int
    at: int


class Reply(NamedTuple):
    """error: None = told. again_s: it may be tried again after so long. gone: no fault of ours."""

    error: str | None = None
    again_s: float | None = None
    gone: bool = False


class Push:
    """private: services in the hub's own network will do, without TLS. For tests."""

    def __init__(
        self,
        subscriptions: Subscriptions,
        key: Callable[[], Awaitable[PushKey]],
        clock: Clock,
        *,
        private: bool = False,
    ) -> None:
        self.health = Health()
        self._subscriptions = subscriptions
        self._key = key
        self._clock = clock
        self._private = private
        self._late: dict[tuple[str, str], Late] = {}
        #: subscription id -> not before, as its service asked
        self._resting: dict[str, int] = {}
        self._http: httpx.AsyncClient | None = None

    @property
    def waiting(self) -> int:
        return len(self._late)

    async def name(self) -> str | None:
        """A hub with another key speaks to other browsers, so it takes no message from this one."""
        known = await self._subscriptions.all()
        if not known:
            return None
        try:
            key = (await self._key()).public
        except PushKeyError as error:
            self.health.went_wrong(str(error), self._clock())
            return None
        return f"push {key}" if any(each.key == key for each in known) else None

    async def say(self, message: Message) -> Outcome:
        try:
            key = await self._key()
        except PushKeyError as error:
            self.health.went_wrong(str(error), self._clock())
            return Outcome(str(error))
        known = [each for each in await self._subscriptions.all() if each.key == key.public]
        found = await self._round([Late(each, message, 0, 0) for each in known])
        replies = [(late, reply) for late, reply in found if not reply.gone]
        told = any(reply.error is None for _, reply in replies)
        self.health.in_row = 0 if told else self.health.in_row + bool(replies)
        late = [(at, reply) for at, reply in replies if reply.again_s is not None]
        errors = [reply.error for _, reply in replies if reply.error is not None]
        if len(late) == len(replies) and late:
            # Nobody was told: so another hub may try as well, and the case may pass meanwhile.
            return Outcome(errors[0], max(reply.again_s or 0.0 for _, reply in late))
        for each, reply in late:
            self._put_off(each, reply)
        return Outcome(errors[0] if errors and len(errors) == len(replies) else None)

    async def follow_up(self) -> None:
        """For those who could not be told when the others were."""
        try:
            while wanted():
                await asyncio.sleep(LOOK_S)
                await self.follow_up_once()
        finally:
            if self._http is not None:
                await self._http.aclose()

    async def follow_up_once(self) -> None:
        now = self._clock()
        self._resting = {key: at for key, at in self._resting.items() if at > now}
        due = [key for key, late in self._late.items() if late.at <= now]
        if not due:
            return
        asked = [self._late[key].subscription for key in due]
        try:
            wanting = {each.id for each in await self._subscriptions.living(asked)}
        except UNAVAILABLE:
            return  # nobody can say whose sign-in is good still: they wait
        popped = [late for key in due if (late := self._late.pop(key, None)) is not None]
        for late, reply in await self._round(
            [late for late in popped if late.subscription.id in wanting]
        ):
            if reply.again_s is not None:
                self._put_off(late, reply)

    def _put_off(self, late: Late, reply: Reply) -> None:
        """A later message of the same topic has taken its place, or does."""
        again_s = max(reply.again_s or 0.0, FIRST_AGAIN_S * 2**late.tries)
        key = (late.subscription.id, late.message.topic)
        newer = self._late.get(key)
        if late.tries + 1 >= MOST_TRIES or again_s > MOST_AGAIN_S:
            self.health.dropped += 1
            return
        if newer is not None and newer.message.at > late.message.at:
            return
        at = self._clock() + int(again_s * 1000)
        self._late[key] = Late(late.subscription, late.message, late.tries + 1, at)
        if len(self._late) > MOST_WAITING:
            del self._late[next(iter(self._late))]
            self.health.dropped += 1

    async def _round(self, each: Sequence[Late]) -> list[tuple[Late, Reply]]:
        """All at once, but few; what is not through in time is late."""
        replies: dict[int, Reply] = {}
        room = asyncio.Semaphore(AT_ONCE)

        async def post(number: int, late: Late) -> None:
            async with room:
                replies[number] = await self._post(late.subscription, late.message)

        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SAY_S), asyncio.TaskGroup() as group:
                for number, late in enumerate(each):
                    group.create_task(post(number, late))
        slow = Reply("The push service is slow.", FIRST_AGAIN_S)
        found = [(late, replies.get(number, slow)) for number, late in enumerate(each)]
        in_row = self.health.in_row
        for _, reply in found:
            if reply.error is None:
                self.health.went_well(self._clock())
            elif not reply.gone:
                self.health.went_wrong(reply.error, self._clock())
        self.health.in_row = in_row  # it counts messages, and one browser's trouble is not all's
        return found

    async def _post(self, to: Subscription, message: Message) -> Reply:
        rests = self._resting.get(to.id, 0) - self._clock()
        if rests > 0:
            return Reply(f"{to.service} has asked for a pause.", rests / 1000)
        if not self._private and await asyncio.to_thread(leads_home, to.service):
            return Reply(f"{to.service} lies in a private network, so nothing is sent there.")
        body = await asyncio.to_thread(encrypted, to, message)
        if body is None:
            return Reply("The keys of a subscription cannot be used.")
        try:
            authorization = (await self._key()).authorization(to.endpoint)
        except PushKeyError as error:
            return Reply(str(error))
        headers = {
            "Authorization": authorization,
            "Content-Encoding": "aes128gcm",
            "Content-Type": "application/octet-stream",
            "TTL": str(TTL_S),
            "Topic": message.topic,
            "Urgency": message.urgency,
        }
        try:
            async with self._client().stream(
                "POST", to.endpoint, content=body, headers=headers
            ) as response:
                status, pause = response.status_code, response.headers.get("retry-after")
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            # Its words may hold the endpoint.
            return Reply(f"{to.service} cannot be reached ({type(error).__name__}).", FIRST_AGAIN_S)
        return await self._answered(to, status, pause)

    async def _answered(self, to: Subscription, status: int, pause: str | None) -> Reply:
        if 200 <= status < 300:
            return Reply()
        if status in GONE:
            with contextlib.suppress(*UNAVAILABLE):  # else its service says so again next time
                if await self._subscriptions.remove(to.endpoint):
                    log.info("a browser at %s is gone (%d): it is told no more", to.service, status)
            return Reply(f"A browser at {to.service} is gone.", gone=True)
        if status == 429 or status >= 500:
            again_s = _seconds(pause, self._clock())
            self._resting[to.id] = self._clock() + int(again_s * 1000)
            return Reply(f"{to.service} answered {status}.", again_s)
        step = (
            "Give ADSUM_PUSH_CONTACT a mail address of yours."
            if status in (400, 401, 403)
            else "Subscribe anew in the browser."
        )
        return Reply(f"{to.service} refused a push with {status}. {step}")

    def _client(self) -> httpx.AsyncClient:
        if self._http is None:
            # At INFO it logs every address it posts to.
            logging.getLogger("httpx").setLevel(logging.WARNING)
            logging.getLogger("httpcore").setLevel(logging.WARNING)
            self._http = httpx.AsyncClient(timeout=POST_S, follow_redirects=False)
        return self._http


def _seconds(pause: str | None, now: int) -> float:
    """Retry-After: seconds, or a date. Never less than our own first wait."""
    if pause is None:
        return FIRST_AGAIN_S
    try:
        wait = (
            float(pause)
            if pause.isdigit()
            else parsedate_to_datetime(pause).timestamp() - now / 1000
        )
    except (ValueError, OverflowError):
        return FIRST_AGAIN_S
    return min(86_400.0, max(FIRST_AGAIN_S, wait))
