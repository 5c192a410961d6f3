"""Makes TLS contexts of files, renews them when the files change, and words what fails.

Certificates are renewed while we run.
"""

import logging
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path

log = logging.getLogger(__name__)

#: Of a file as it stands there; None: it cannot be looked at.
_Mark = tuple[int, int, int, int] | None


class Renewed:
    """make: raises `broken`, whose text names the file. files: whatever it reads.

    A new context, not new files into the one in use: that would be left with half of them where the
    other half cannot be used yet, and certificate and key are two.
    """

    def __init__(
        self,
        files: Sequence[str | None],
        make: Callable[[], ssl.SSLContext],
        broken: type[Exception],
    ) -> None:
        self._files = [Path(each) for each in files if each is not None]
        self._make, self._broken = make, broken
        self._context: ssl.SSLContext | None = None
        self._marks: list[_Mark] = []

    def context(self) -> ssl.SSLContext:
        """For each connection that is opened. Raises `broken` where nothing could ever be used."""
        marks = [_mark(each) for each in self._files]  # before they are read: they may change then
        if self._context is not None and marks == self._marks:
            return self._context
        self._marks = marks
        try:
            self._context = self._make()
        except self._broken as error:
            if self._context is None:
                raise
            log.warning("what was read before is used on, for a file has changed: %s", error)
        return self._context


def trusted_file() -> str | None:
    """With all the authorities that the system trusts; None: it keeps them otherwise."""
    return ssl.get_default_verify_paths().cafile


def _mark(file: Path) -> _Mark:
    try:
        found = file.stat()
    except OSError:
        return None
    # ctime: one that could not be read is made readable by a change of its mode alone.
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino


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
