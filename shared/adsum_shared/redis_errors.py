"""Why a way to Redis leads nowhere: what TLS, Sentinels and clusters fail by, in sentences."""

from __future__ import annotations

from redis.exceptions import ConnectionError as RedisConnectionError


class WayError(RedisConnectionError):
    """No server is reached, or none that may be written to. The text: the cause, the next step."""


class UnsettledError(WayError):
    """The servers change their parts just now. What was asked was not done: ask again."""


_SHOWN = "shows a certificate"
_UNTRUSTED = f"{_SHOWN} whose authority is not trusted here."
_CA = (
    f"{_UNTRUSTED} Set ADSUM_REDIS_CA to a PEM file with that authority's certificate; if it is set, "
    "it names another one."
)
#: As OpenSSL has it, and what to say.
_TLS: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("certificate has expired",),
        f"{_SHOWN} that has expired. Renew it there, and let Redis read it.",
    ),
    (
        ("not yet valid",),
        f"{_SHOWN} that is not valid yet. Look at the clocks of both machines.",
    ),
    (
        ("Hostname mismatch", "IP address mismatch"),
        f"{_SHOWN} for another name than the one it was reached by. Use a name that stands "
        "in the certificate (subjectAltName), or have one made for this name.",
    ),
    (
        (
            "self-signed certificate",
            "self signed certificate",
            "unable to get",
            "signature failure",
        ),
        _CA,
    ),
    (("CERTIFICATE_VERIFY_FAILED",), f"{_SHOWN} that cannot be verified."),
    (
        ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "record layer failure"),
        "speaks no TLS at that port. Name its TLS port, or begin the URL with redis in place of rediss.",
    ),
    (
        ("CERTIFICATE_REQUIRED", "certificate required", "HANDSHAKE_FAILURE", "handshake failure"),
        "wants a certificate of ours. Put ssl_certfile and ssl_keyfile into the URL's query, or set "
        "tls-auth-clients no there.",
    ),
)


def told_of(error: BaseException | None) -> str | None:
    """What follows `Redis at …`: cause and next step; None: it is none of these."""
    chain: list[BaseException] = []
    while error is not None and error not in chain:
        chain.append(error)
        error = error.__cause__ or error.__context__
    # The client wraps whatever goes wrong as it connects into errors of its own.
    for each in chain:
        if isinstance(each, WayError):
            return f"is not reached: {each}"
    text = str(chain[0]) if chain else ""
    for words, sentences in _TLS:
        if any(word in text for word in words):
            return f"{sentences} ({_bare(text)})" if words[0].isupper() else sentences
    return None


def is_certificates(error: BaseException) -> bool:
    """Whether it fails by the certificate shown, of any of its servers."""
    return _SHOWN in (told_of(error) or "")


def is_untrusted(error: BaseException) -> bool:
    """Whether it fails by who has signed that."""
    return _UNTRUSTED in (told_of(error) or "")


def _bare(text: str) -> str:
    """OpenSSL's own words: what stands before them names host and port a second time."""
    return text[text.find("[SSL") :] if "[SSL" in text else text
