"""The one root of all errors whose text is for people."""


class AdsumError(Exception):
    """Ends a command or a part without a traceback.

    The text is for people: it names the thing, the cause and the next step.
    """
