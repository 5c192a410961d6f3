"""What REST takes and answers of notifications. It answers no URL, no endpoint, no secret key."""

from __future__ import annotations

import msgspec


class NotifyChannel(msgspec.Struct):
    """sent, failed, dropped: since this hub started. waiting: cases it is not told of yet.

    error: of the last try that failed; problem: the same while nothing was sent since.
    """

    name: str
    content: str
    waiting: int
    sent: int
    failed: int
    dropped: int
    sent_at: int | None
    failed_at: int | None
    error: str | None
    problem: str | None


class NotifyRule(msgspec.Struct):
    """state, host, project: patterns; none = any. quiet: such as `22:00-07:00 Europe/Berlin`."""

    on: str
    channels: list[str]
    after_s: int
    digest_s: int
    state: list[str]
    host: list[str]
    project: list[str]
    quiet: str | None


class Notify(msgspec.Struct):
    """public_key: what a browser subscribes with; None: `problem` says why there is none.

    subscriptions: made with this key; others: with another hub's, which is the one to tell them.
    contact: whether ADSUM_PUSH_CONTACT is given, without which Apple's service takes nothing.
    """

    schema: int
    now: int
    public_key: str | None
    problem: str | None
    contact: bool
    subscriptions: int
    others: int
    channels: list[NotifyChannel]
    rules: list[NotifyRule]


class Subscribed(msgspec.Struct):
    """subscriptions: how many there are now, of all keys."""

    schema: int
    subscriptions: int


class NotifyTried(msgspec.Struct):
    """error: None if it went well."""

    channel: str
    error: str | None


class NotifyTest(msgspec.Struct):
    schema: int
    tried: list[NotifyTried]


class PushKeys(msgspec.Struct):
    p256dh: str
    auth: str


class PushSubscription(msgspec.Struct):
    """What a browser's `subscription.toJSON()` is; further fields are ignored."""

    endpoint: str
    keys: PushKeys


class PushEndpoint(msgspec.Struct):
    endpoint: str


class NotifyTestAsked(msgspec.Struct):
    """channel: None = all."""

    channel: str | None = None
