"""Domain `research`: searching, reading sources and writing up, of those who look things up."""

from __future__ import annotations

from urllib.parse import urlsplit

from adsum_hub.domains.contract import API_VERSION, Display, hookimpl
from adsum_hub.domains.creative import WORKS
from adsum_hub.domains.told import Deed, at_hand, deeds, named
from adsum_shared.state import SessionView

adsum_domain_api = API_VERSION

READERS = frozenset({"read", "search"})
SOUGHT = frozenset({"web_search", "fetch"})
WRITERS = frozenset({"edit", "write"})


@hookimpl
def interpret(session: SessionView) -> Display | None:
    state = session.state.state
    if state == "acting":
        return _under_way(at_hand(session))
    if state == "awaiting_approval":
        return Display(label="Research plan ready for review", icon="clipboard-check")
    if state in {"idle", "task_complete"}:
        return _finished(deeds(session))
    return None


def _under_way(done: Deed | None) -> Display | None:
    if done is None:
        return None
    if done.role == "web_search":
        return Display(label=named("Searching:", done.summary), icon="search")
    if done.role == "fetch":
        return Display(label=named("Reading", _site(done.summary) or "a source"), icon="search")
    if done.role in READERS:
        return Display(label="Reading sources", icon="search")
    if _is_report(done):
        return Display(label=named("Writing up", done.summary), icon="pen-line")
    return None


def _finished(done: list[Deed]) -> Display | None:
    """Findings only where something was looked up: a chat about nothing in particular has none."""
    if not any(each.role in SOUGHT and each.error is None for each in done):
        return None
    reports = [each for each in done if each.error is None and _is_report(each)]
    if reports:
        label = named("Report ready:", reports[-1].summary)
        return Display(label=label, icon="clipboard-check")
    return Display(label="Findings ready", icon="clipboard-check")


def _is_report(done: Deed) -> bool:
    return done.role in WRITERS and WORKS.fullmatch(done.summary) is not None


def _site(address: str) -> str | None:
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None
