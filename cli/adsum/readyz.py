"""What the `/readyz` of a collector or a hub says of itself."""

from __future__ import annotations

import http.client
import json
from typing import Any
from urllib.parse import urlsplit

from adsum.client import connection_to, headers_for

TIMEOUT_S = 3.0


class SilentError(Exception):
    """Nobody answers there, or somebody else. The text is the reason."""


def readiness(url: str) -> dict[str, Any]:
    """The facts, whether they say ready or not. Raises SilentError."""
    connection = connection_to(url, TIMEOUT_S)
    try:
        headers = {"Accept": "application/json", **headers_for(url)}
        connection.request("GET", f"{urlsplit(url).path}/readyz", headers=headers)
        facts = json.loads(connection.getresponse().read())
    except (OSError, http.client.HTTPException) as error:
        raise SilentError(getattr(error, "strerror", None) or str(error) or "no answer") from error
    except ValueError as error:
        raise SilentError("another program answers there") from error
    finally:
        connection.close()
    if not isinstance(facts, dict) or "ready" not in facts:
        raise SilentError("another program answers there")
    return facts
