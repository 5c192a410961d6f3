"""Whether machines elsewhere will trust the hub's certificate as they stand: asked of the hub's address.

The hub speaks no TLS itself, and knows of a certificate only what a proxy before it shows.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from adsum_hub.join.words import UNVOUCHED
from adsum_shared.tls_words import is_untrusted

#: By the hub's URL: what keeps machines from trusting it; None: nothing, or nobody can say.
Vouched = Callable[[str], Awaitable[str | None]]
#: Whoever makes a token waits for it. From where the hub runs its own address may lead nowhere.
ASK_S = 1.5


async def vouched(url: str) -> str | None:
    parts = urlsplit(url)
    host = parts.hostname
    if parts.scheme != "https" or not host:
        return None
    try:
        async with asyncio.timeout(ASK_S):
            # In a thread: it reads all that the system trusts, which takes 20 ms.
            tls = await asyncio.to_thread(ssl.create_default_context)
            _, writer = await asyncio.open_connection(host, parts.port or 443, ssl=tls)
    except ssl.SSLError as error:
        return UNVOUCHED.format(host=host) if is_untrusted(error) else None
    except (OSError, UnicodeError):  # the latter: no name that one could look up
        return None
    writer.transport.abort()
    return None
