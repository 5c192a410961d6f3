"""What is asked for, made sure of: tokens, names, identities. Raises what the asker is answered."""

from __future__ import annotations

import msgspec

from adsum_hub.auth.secret import digest_of
from adsum_hub.join.secret import is_join_token
from adsum_hub.join.tokens import Held, Worthless
from adsum_hub.join.words import MAKE, WHY
from adsum_hub.rest.bodies import BadRequestError
from adsum_hub.rest.join_answers import JoinToken

MOST_LABEL = 100


def token_of(held: Held) -> JoinToken:
    return msgspec.convert(held, JoinToken, from_attributes=True)


def good(found: Held | Worthless) -> Held:
    """Raises BadRequestError."""
    if isinstance(found, Held):
        return found
    status, cause = WHY[found]
    raise BadRequestError(status, cause, MAKE)


def too_many(cause: str, wait_s: int, step: str) -> BadRequestError:
    return BadRequestError(429, cause, step, {"retry-after": str(wait_s)})


def worthless() -> BadRequestError:
    cause = "This machine's credential is not valid, or not any more."
    return BadRequestError(401, cause, f"Join again. {MAKE}")


def label_of(given: str) -> str:
    """Raises BadRequestError."""
    label = given.strip()
    if len(label) > MOST_LABEL or not label.isprintable():
        step = f"Give one of at most {MOST_LABEL} signs without line breaks: it is shown in lists."
        raise BadRequestError(400, "This is no name for a machine.", step)
    return label


def token_digest(token: str) -> str:
    """Raises BadRequestError."""
    token = token.strip()
    if not is_join_token(token):
        raise BadRequestError(400, "This is no join token.", f"It begins with adsum_join_. {MAKE}")
    return digest_of(token)
