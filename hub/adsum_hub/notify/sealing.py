"""A push as its service gets it: encrypted for the one browser."""

from __future__ import annotations

import msgspec

from adsum_hub.notify.subscriptions import Subscription
from adsum_hub.notify.words import Message


def encrypted(to: Subscription, message: Message) -> bytes | None:
    """None: its keys cannot be used."""
    from http_ece import ECEException
    from pywebpush import WebPusher, WebPushException

    keys = {"p256dh": to.p256dh, "auth": to.auth}
    try:
        pusher = WebPusher({"endpoint": to.endpoint, "keys": keys})
        return bytes(pusher.encode(msgspec.json.encode(message))["body"])
    except (ValueError, ECEException, WebPushException):
        return None
