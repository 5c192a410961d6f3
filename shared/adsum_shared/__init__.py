"""What collector and hub agree on: signals, batches, states, Redis keys, errors for people. Knows nobody."""

from collections.abc import Callable

__version__ = "0.1.0"

#: A hub keeps sessions that are over for so many days, and a usage report covers no more of them.
MOST_DAYS = 400

#: Milliseconds since the epoch, by this machine's clock.
WallClock = Callable[[], int]
#: Seconds since whenever.
Timer = Callable[[], float]


class AdsumError(Exception):
    """The one root of all errors that end a command or a part without a traceback.

    The text is for people: it names the thing, the cause and the next step.
    """
