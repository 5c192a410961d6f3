"""Says why Redis does not do what it is asked: the cause and the next step, for people."""

import re

from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    MasterDownError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    TimeoutError,
)
from redis.exceptions import ConnectionError as RedisConnectionError

from adsum_shared import AdsumError


class WayError(RedisConnectionError):
    """No server is reached, or none that may be written to. The text: the cause, the next step."""


class UnsettledError(WayError):
    """The servers change their parts just now. What was asked was not done: ask again."""


class BrokerTooOldError(AdsumError):
    """The broker lacks commands we cannot do without."""


class ExhaustedError(RedisError):
    """No connection of ours came free in time. Redis itself may be well, so this is no sign that it is away."""


_SHOWN = "shows a certificate"
_UNTRUSTED = f"{_SHOWN} whose authority is not trusted here."
_CA = (
    f"{_UNTRUSTED} Set ADSUM_REDIS_CA to a PEM file with that authority's certificate; if it is set, "
    "it names another one."
)
#: As OpenSSL has it, and what to say.
_TLS = {
    "certificate has expired": f"{_SHOWN} that has expired. Renew it there, and let Redis read it.",
    "not yet valid": f"{_SHOWN} that is not valid yet. Look at the clocks of both machines.",
    "Hostname mismatch|IP address mismatch": f"{_SHOWN} for another name than the one it was reached by. "
    "Use a name that stands in the certificate (subjectAltName), or have one made for this name.",
    "self-signed certificate|self signed certificate|unable to get|signature failure": _CA,
    "CERTIFICATE_VERIFY_FAILED": f"{_SHOWN} that cannot be verified.",
    "WRONG_VERSION_NUMBER|RECORD_LAYER_FAILURE|record layer failure": "speaks no TLS at that port. Name its "
    "TLS port, or begin the URL with redis in place of rediss.",
    "CERTIFICATE_REQUIRED|certificate required|HANDSHAKE_FAILURE|handshake failure": "wants a certificate of "
    "ours. Put ssl_certfile and ssl_keyfile into the URL's query, or set tls-auth-clients no there.",
}


def explained(error: BaseException | None) -> str | None:
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
    for words, sentences in _TLS.items():
        if re.search(words, text):
            said = words.partition("|")[0].isupper()
            return f"{sentences} ({_bare(text)})" if said else sentences
    return None


def is_certificates(error: BaseException) -> bool:
    """Whether it fails by the certificate shown, of any of its servers."""
    return _SHOWN in (explained(error) or "")


def is_untrusted(error: BaseException) -> bool:
    """Whether it fails by who has signed that."""
    return _UNTRUSTED in (explained(error) or "")


def _bare(text: str) -> str:
    """OpenSSL's own words: what stands before them names host and port a second time."""
    return text[text.find("[SSL") :] if "[SSL" in text else text


#: How Redis begins, and what to say; in braces, its own words.
_CAUSES = {
    "NOPERM": "forbids this user a command ({text}). Give this machine's user the rights docs/protocol.md "
    "lists.",
    "NOAUTH|WRONGPASS": "refused the password, or wants one. "
    "Put the right one into the URL: redis://user:password@host:port (ADSUM_REDIS_URL). A machine "
    "that joined may have been shut out: `adsum hosts` on the hub's machine says so.",
    "OOM": "is out of memory. Start a hub if none runs, so that streams are trimmed, or raise its maxmemory.",
    "READONLY": "is a read-only replica. Point ADSUM_REDIS_URL at the primary.",
    "MISCONF": "cannot save to its disk and takes no writes. Look at its log and its free space.",
    "NOREPLICAS": "has fewer replicas than it wants (NOREPLICAS) and takes no writes. "
    "Start them, or lower its min-replicas-to-write.",
    "MASTERDOWN": "has lost its primary and answers nothing. Start that, or point ADSUM_REDIS_URL at the new "
    "one.",
    "CLUSTERDOWN": "has lost some of its servers and refuses this. Start them.",
    "BUSY": "is busy with somebody's script and answers nobody. Wait; or end it: redis-cli SCRIPT KILL.",
    "LOADING": "is still loading its data. Wait.",
    "max number of clients": "has no connection left for us. Raise its maxclients, or end what holds them.",
}
#: The client cuts some words off and makes classes of them, so both are looked for.
_KINDS: dict[str, type[Exception]] = {
    "NOPERM": NoPermissionError,
    "NOAUTH|WRONGPASS": AuthenticationError,
    "OOM": OutOfMemoryError,
    "READONLY": ReadOnlyError,
    "MASTERDOWN": MasterDownError,
    "LOADING": BusyLoadingError,
}


def describe(error: Exception, address: str, kept: str) -> str:
    """One sentence for the cause, one for the next step; names no secret.

    address: as `connect.address_of` shows it. kept: the sentence on what becomes of the data.
    """
    if isinstance(error, BrokerTooOldError):
        return str(error)
    return f"Redis at {address} {cause_of(error)} {kept}"


def cause_of(error: Exception) -> str:
    """What follows `Redis at …`: the cause and the next step."""
    if (text := explained(error)) is not None:
        return text
    text = str(error)
    if isinstance(error, ExhaustedError):
        return f"is asked too much from here at once: {text}. Wait."
    for words, sentences in _CAUSES.items():
        # Redis begins with the word; where a script was refused, 6.2 has it inside, after a dash.
        if isinstance(error, _KINDS.get(words, ())) or re.search(rf"(?:^|-)(?:{words})\b", text):
            return sentences.format(text=text)
    if isinstance(error, TimeoutError) and "connect" not in text:
        return (
            "does not answer. It hangs or is overloaded, or the network drops what is sent: look at "
            "its machine and at the way there."
        )
    if isinstance(error, TimeoutError | OSError) or "onnect" in text:
        return (
            f"cannot be reached ({text or type(error).__name__}). "
            "Start it, or correct ADSUM_REDIS_URL."
        )
    return f"answered: {text or type(error).__name__}. Look at its log."
