"""What to tell people when TLS fails: the cause, and the next step. Pure."""

from __future__ import annotations

import ssl

#: Of OpenSSL, as Python tells them.
_EXPIRED, _NOT_YET = 10, 9
#: For a host name; for an address.
_WRONG_NAME = (62, 64)
#: By itself, by one in its chain, by one that is not known, or only goes by the name of a known one.
_UNTRUSTED = (18, 19, 20, 7)


def wrong_tls(host: str, error: ssl.SSLError, own: str = "--ca FILE") -> str:
    """own: by what an authority of one's own is named."""
    if not isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"No TLS is spoken at {host} ({error.reason or error}). If the hub has none: http://…; "
            "then secrets cross the network in clear."
        )
    code, why = error.verify_code, error.verify_message.rstrip(".")
    if code == _EXPIRED:
        return f"The certificate of {host} has expired. Renew it; or is this machine's clock wrong?"
    if code == _NOT_YET:
        return f"The certificate of {host} is not valid yet. Is this machine's clock wrong?"
    if code in _WRONG_NAME:
        return (
            f"The certificate shown is not for {host}: {why}. Use the name it is "
            "for; if that is what you did, somebody else answers there."
        )
    if is_untrusted(error):
        return (
            f"Nobody this machine trusts has signed the certificate of {host} "
            f"({why}). If it is by your own authority: {own}, with that authority's certificate."
        )
    return f"The certificate of {host} is refused: {why}."


def is_untrusted(error: ssl.SSLError) -> bool:
    """Whether nobody who is trusted here has signed the certificate shown."""
    return isinstance(error, ssl.SSLCertVerificationError) and error.verify_code in _UNTRUSTED


def in_chain(error: BaseException) -> ssl.SSLError | None:
    """The TLS error that led to this one, if one did."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return cause
        cause = cause.__cause__ or cause.__context__
    return None
