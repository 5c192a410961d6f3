"""Ages, amounts, gaps and troubles in words for people. Pure.

The page has the same words, in web/core/format.js and web/hosts.
"""

import math
import re
import time
from collections.abc import Iterator, Sequence

import msgspec

from adsum_shared.redact import clean
from adsum_shared.state import (
    ContextView,
    GapView,
    HostView,
    HubTrouble,
    RateLimitView,
    SessionView,
    UsageView,
    unknown_name,
)

UNPRICED = "unpriced"
NONE = "-"
PRICES = "Add it: prices.toml beside the hub's config.toml"

_UNITS = ("k", "M", "G", "T", "P")
_MOST = 10**18
#: Less than this would be rounded to no cent at all.
CENT_LEAST = 0.005
LIMIT_NAMES = {"five_hour": "5h", "seven_day": "7d"}

#: By what a collector calls it; in braces what is said of one, and of several.
_CAUSES = {
    "date in the future": "{message|messages} dated in the future {was|were} not counted",
    "odd usage": "{message|messages} with impossible numbers {was|were} not counted",
    "usage in a line left out": "{file was|files were} read again, as {a line|lines} left out "
    "told of usage",
    "huge line": "overlong {line was|lines were} left out",
    "compressed, not read": "compressed {rollout is|rollouts are} not read, and in no sum of usage",
    "compressed, not read, MB": "MB of compressed rollouts are not read",
    "no JSON": "{line|lines} could not be read",
    "truncated": "{transcript was|transcripts were} cut short and read anew",
    "replaced": "{transcript was|transcripts were} replaced and read anew",
    "rewritten": "{transcript was|transcripts were} rewritten and read anew",
    "unreadable": "{file|files} could not be read",
    "not accepted": "{report|reports} had to wait for room in the spool",
    "no such process": "{entry named a process|entries named processes} that had ended already",
    "too long": "{message was|messages were} too long and {was|were} refused",
    "malformed": "{message|messages} could not be understood",
    "spool": "{message was|messages were} refused, as the spool had no room",
    "hung": "{run|runs} of your command took too long",
    "exit code": "{run|runs} of your command ended with code ",
    "HTTP": "{message was|messages were} refused (HTTP ",
}
_NUMBERED = re.compile(r"(exit code|HTTP) (-?\d+)")

#: The latest: what was lost long ago is of less interest.
GAPS_SHOWN = 3

GAP_REASONS = {
    "cap": "its disk allowance was used up",
    "corrupt": "its spool was damaged",
    "copy": "an older copy of its disk was restored",
    "rollback": "an older copy of its disk was restored",
    "retention": "it was older than what that machine keeps",
    "lost": "its spool was deleted",
    "undecodable": "entries could not be read",
}


def age(ms: int) -> str:
    """A duration in at most four characters: 0s, 59s, 59m, 23h, 99d."""
    seconds = max(0, ms) // 1000
    for size, unit in ((60, "s"), (60, "m"), (24, "h")):
        if seconds < size:
            return f"{seconds}{unit}"
        seconds //= size
    return f"{min(seconds, 999)}d"


def span(ms: float) -> str:
    """A duration in up to two units, as the page has it: 42s, 5m, 2h 04m, 3d 4h."""
    if ms < 3_600_000:
        return age(int(ms))
    hours, minutes = divmod(int(ms) // 60_000, 60)
    return f"{hours}h {minutes:02}m" if hours < 24 else f"{hours // 24}d {hours % 24}h"


def moment(at: int, now: int) -> str:
    """The time of day, with the date unless it is today's. Both in ms."""
    then, today = time.localtime(at / 1000), time.localtime(now / 1000)
    form = "%H:%M" if then[:3] == today[:3] else "%-d %b %H:%M"
    return time.strftime(form, then)


def short(number: float) -> str:
    """At most five characters: 0, 999, 1.2k, 12.3M, 123G, and >999P for all that is more."""
    size = float(min(max(0, number), _MOST))
    if size < 999.5:
        return _rounded(size, 0)
    for unit in _UNITS:
        size /= 1000
        if size < 99.95:
            return f"{_rounded(size, 1)}{unit}"
        if size < 999.5:
            return f"{_rounded(size, 0)}{unit}"
    return f">999{_UNITS[-1]}"


def _rounded(number: float, digits: int) -> str:
    """Half is up, as on the page, which is to show the same."""
    return f"{math.floor(number * 10**digits + 0.5) / 10**digits:,.{digits}f}"


def octets(count: float) -> str:
    """0 B, 3.1 GB."""
    said = short(count)
    number = said.rstrip("kMGTP")
    return f"{number} {said[len(number) :]}B"


def dollars(usd: float) -> str:
    """To the cent, while that can be read. Something never reads as nothing."""
    if usd <= 0:
        return "$0.00"
    if usd < CENT_LEAST:
        return "< $0.01"
    return f"${_rounded(usd, 2)}" if usd < 99_999.995 else f"${short(usd)}"


def tokens_of(usage: UsageView) -> int:
    return (
        usage.input_tokens
        + usage.output_tokens
        + usage.cache_read_tokens
        + usage.cache_write_tokens
    )


def marks(*, plain: bool) -> tuple[str, str]:
    """Before dollars that were computed from prices, wholly or in part; before those that lack some.

    plain: for a terminal without Unicode.
    """
    return ("~", ">=") if plain else ("≈", "≥")


def cost(usage: UsageView | None, *, plain: bool = False) -> str:
    """The mark says whose word it is; what has no price never reads as $0.00."""
    if usage is None:
        return NONE
    if usage.cost_source == "plan":
        return "plan"
    if usage.cost_usd is None:
        return UNPRICED if usage.unpriced_tokens or tokens_of(usage) else NONE
    if usage.cost_usd <= 0 and not tokens_of(usage) and not usage.web_searches:
        return NONE  # not even begun: no price was applied to anything
    computed, at_least = marks(plain=plain)
    if usage.unpriced_tokens:
        if usage.cost_usd < CENT_LEAST:
            return UNPRICED  # next to nothing of it has a price
        return f"{at_least} {dollars(usage.cost_usd)}"
    # Less than something is a guess as it is.
    bare = usage.cost_source == "reported" or 0 < usage.cost_usd < CENT_LEAST
    return dollars(usage.cost_usd) if bare else f"{computed} {dollars(usage.cost_usd)}"


def percent(part: float, whole: float) -> str:
    return f"{min(999, max(0, part / whole * 100)):.0f}%" if whole > 0 else NONE


def context(view: ContextView | None) -> str:
    """How full it is; the tokens where nobody says of how many."""
    if view is None:
        return NONE
    return percent(view.tokens, view.size) if view.size else short(view.tokens)


def paid(view: SessionView, *, plain: bool = False) -> str:
    """Its dollars, or what it has used of its plan."""
    if view.plan is None:
        return cost(view.usage, plain=plain)
    used = [f"{_limit_name(each)} {percent(each.used_percent, 100)}" for each in view.plan.limits]
    return " ".join(used) or "plan"


def _limit_name(limit: RateLimitView) -> str:
    name = LIMIT_NAMES.get(limit.name, limit.name.replace("_", " "))
    return f"{limit.agent} {name}" if limit.agent else name


def limit_words(limits: tuple[RateLimitView, ...], now: int) -> Iterator[str]:
    for limit in limits:
        name, used = _limit_name(limit), percent(limit.used_percent, 100)
        if limit.resets_at and limit.resets_at <= now:
            yield f"{name} was {used}, reset since"
        elif limit.resets_at:
            yield f"{name} {used}, resets in {span(limit.resets_at - now)}"
        else:
            yield f"{name} {used}"


def gap_sentence(gap: GapView, now: int) -> str:
    when, what, verb = moment(gap.at, now), f"{gap.numbers:,} signals from", "are"
    if gap.numbers <= 1:
        what, verb = "1 signal from" if gap.numbers else "Something", "is"
    why = GAP_REASONS.get(gap.reason, gap.reason.replace("_", " "))
    return f"{what} before {when} {verb} missing: {why}."


def missing_of(view: SessionView, gaps: Sequence[GapView], now: int) -> list[str]:
    """Why a session is incomplete: its host's gaps since it began, the latest first."""
    since = [gap for gap in gaps if gap.at >= (view.started_at or 0)] or gaps[-1:]
    sentences = [gap_sentence(gap, now) for gap in reversed(since[-GAPS_SHOWN:])]
    return sentences or ["Something of what it did is missing."]


def trouble_sentence(trouble: HubTrouble, now: int) -> str:
    since = moment(trouble.since, now)
    what = "The list stands still" if trouble.blind else "Trouble"
    return f"{what} since {since}: {trouble.problem}"


def trouble_in(answer: dict[str, object]) -> HubTrouble | None:
    """What an answer or a message of the hub carries; None while all is well."""
    trouble = answer.get("trouble")
    return msgspec.convert(trouble, HubTrouble) if trouble else None


def as_of(now: int, trouble: HubTrouble | None) -> int:
    """The time that a list is true at: no age grows while the list stands still."""
    return trouble.since if trouble is not None and trouble.blind else now


def cause_sentence(cause: str, times: int) -> str:
    """What a witness could not read or left out; an unknown word stands as it is."""
    if numbered := _NUMBERED.fullmatch(cause):
        said = _CAUSES[numbered[1]] + numbered[2] + (")" if numbered[1] == "HTTP" else "")
    elif cause in _CAUSES:
        said = _CAUSES[cause]
    else:
        return f"{clean(cause)}: {times:,} {'time' if times == 1 else 'times'}"
    return f"{times:,} " + re.sub(r"{(.*?)\|(.*?)}", r"\1" if times == 1 else r"\2", said)


def hook_problem(view: SessionView) -> str | None:
    """missing, doubled, or a word this version does not know; None if its host is offline."""
    if view.reachability == "offline":
        return None
    return next((clean(each.problem) for each in view.witnesses if each.problem), None)


def witness_word(witness: str) -> str:
    return "status line" if witness == "statusline" else clean(witness)


def unknown_in(host: str | None, agent: str | None, hosts: Sequence[HostView]) -> str:
    """Which hosts or agents there are, if these are none of them; "" if they are, or nobody knows yet."""
    if not hosts:
        return ""
    known = {one.label for one in hosts} | {one.id for one in hosts if one.id == host}
    agents = {each.name for one in hosts for each in one.agents}
    said = [unknown_name("host", host, known), unknown_name("agent", agent, agents)]
    return clean(" ".join(filter(None, said)))


def advice(*, filtered: bool, hosts: Sequence[HostView]) -> str:
    """What to do when there is nothing to show."""
    if filtered:
        return "No session matches. All of them: adsum agents"
    if not hosts:
        return "No machine has reported yet. On this one: adsum up"
    return (
        "No sessions yet. Start `claude` in a terminal and it appears here; if it does not: "
        "adsum hooks verify. Those that are over: adsum history"
    )
