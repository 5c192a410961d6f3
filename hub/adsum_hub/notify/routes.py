"""REST v1 of notifications: what there is, a browser's subscription, and a test."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from fastapi import APIRouter, Request, Response

from adsum_hub.notify.notifications import Notifications
from adsum_hub.notify.subscriptions import SubscriptionError
from adsum_hub.notify.vapid import PushKeyError
from adsum_hub.rest.answers import SCHEMA, Problem, answers_of, as_json
from adsum_hub.rest.bodies import BadRequestError, read, takes
from adsum_hub.rest.notify_answers import (
    Notify,
    NotifyTest,
    NotifyTestAsked,
    NotifyTried,
    PushEndpoint,
    PushSubscription,
    Subscribed,
)
from adsum_shared.connect import UNAVAILABLE

#: Between two tests: whoever holds the button down is no nuisance to others.
TEST_EVERY_MS = 5_000
REFUSED = {400: "No such request", 409: "Not possible here", 415: "Not JSON", 503: "Not now"}


async def answered(work: Awaitable[Any]) -> Response:
    try:
        return as_json(await work)
    except BadRequestError as error:
        return error.answer
    except SubscriptionError as error:
        return as_json(Problem(str(error), error.next), 409)
    except PushKeyError as error:
        return as_json(Problem(str(error), "Restart the hub once it is there."), 503)
    except UNAVAILABLE:
        step = "Try again; the hub's page says what is wrong with it."
        return as_json(Problem("Redis does not answer, so nothing can be looked up.", step), 503)


class Testing:
    def __init__(self, notifications: Notifications) -> None:
        self._notifications = notifications
        self._tested_at = 0

    async def test(self, request: Request) -> NotifyTest:
        wanted = (await read(request, NotifyTestAsked)).channel
        known = list(self._notifications.notifier.speakers)
        if wanted is not None and wanted not in known:
            cause = f"There is no channel {wanted[:40]!r}."
            raise BadRequestError(400, cause, f"Name one of {', '.join(known)}.")
        now = self._notifications.clock()
        if now - self._tested_at < TEST_EVERY_MS:
            step = f"Wait {TEST_EVERY_MS // 1000} s between two tests."
            raise BadRequestError(429, "A test was sent just now.", step)
        self._tested_at = now
        found = await self._notifications.notifier.test([wanted] if wanted else known)
        return NotifyTest(SCHEMA, [NotifyTried(name, error) for name, error in found.items()])


def notify_router(notifications: Notifications) -> APIRouter:
    router = APIRouter(prefix="/api/v1/notify", tags=["v1"])
    testing = Testing(notifications)

    async def subscribed(request: Request) -> Subscribed:
        asked = await read(request, PushSubscription)
        owner = notifications.owner_of(request.scope)
        return Subscribed(SCHEMA, await notifications.subscribe(asked, owner))

    async def unsubscribed(request: Request) -> Subscribed:
        named = await read(request, PushEndpoint)
        await notifications.subscriptions.remove(named.endpoint)
        return Subscribed(SCHEMA, len(await notifications.subscriptions.all()))

    @router.get(
        "",
        summary="Who is told of what, and how that has fared",
        responses=answers_of(Notify, also={503: "Redis does not answer"}),
        response_class=Response,
    )
    async def status() -> Response:
        return await answered(notifications.status(SCHEMA))

    @router.post(
        "/subscriptions",
        summary="A browser asks for pushes: what its subscription.toJSON() says",
        responses=answers_of(Subscribed, also=REFUSED),
        response_class=Response,
        openapi_extra=takes(PushSubscription),
    )
    async def subscribe(request: Request) -> Response:
        return await answered(subscribed(request))

    @router.delete(
        "/subscriptions",
        summary="A browser wants no more of them",
        responses=answers_of(Subscribed, also=REFUSED),
        response_class=Response,
        openapi_extra=takes(PushEndpoint),
    )
    async def unsubscribe(request: Request) -> Response:
        return await answered(unsubscribed(request))

    @router.post(
        "/test",
        summary="Tell one channel, or all, that messages arrive",
        responses=answers_of(NotifyTest, also={**REFUSED, 429: "Too soon"}),
        response_class=Response,
        openapi_extra=takes(NotifyTestAsked),
    )
    async def test(request: Request) -> Response:
        return await answered(testing.test(request))

    return router
