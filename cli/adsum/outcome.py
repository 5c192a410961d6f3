"""How a command ends: exit codes, and the one error that people read."""

from enum import IntEnum

from adsum_shared.errors import AdsumError


class Exit(IntEnum):
    OK = 0
    ERROR = 1
    USAGE = 2
    UNREACHABLE = 3
    AUTH = 4
    PARTIAL = 5
    OVERRULED = 6
    TOO_LATE = 7
    NEEDS_YOU = 10
    INTERRUPTED = 130


class CommandError(AdsumError):
    """Ends the command. The text names the thing, the cause and the next step."""

    def __init__(self, text: str, code: Exit = Exit.ERROR) -> None:
        super().__init__(text)
        self.code = code


def require(holds: object, text: str) -> None:
    """Raises CommandError: the command line, a variable or the file says what cannot be."""
    if not holds:
        raise CommandError(text, Exit.USAGE)
