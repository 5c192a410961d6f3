"""Notes on names that nothing bears: a filter with a slip of the pen must not look like "nothing"."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from difflib import get_close_matches

from adsum_hub.roster import Roster

#: Named in a note, the most alike first; and of each name so many characters.
NAMED = 8
NAME_MAX = 60
#: Sessions gone through before the loop gets its turn.
SLICE = 500


async def misspelt(
    roster: Roster,
    host: str | None = None,
    project: str | None = None,
    model: str | None = None,
) -> list[str]:
    """For whoever found nothing. A name that is borne by something, in whatever days, is no fault."""
    notes: list[str] = []
    if host is not None and host not in roster.hosts:
        notes += unknown("host", host, {each.label for each in roster.hosts.values()})
    if project is None and model is None:
        return notes
    projects: set[str] = set()
    models: set[str] = set()
    for each in list(roster.hosts.values()):
        for count, facts in enumerate(list(each.facts.values()), 1):
            projects.add(facts.project or "")
            models |= {key.split(" ", 2)[2] for key in facts.usage}
            models.add(facts.about("model") or "")
            if count % SLICE == 0:
                await asyncio.sleep(0)
    notes += unknown("project", project, projects)
    return notes + unknown("model", model, models)


def unknown(kind: str, name: str | None, known: Iterable[str]) -> list[str]:
    """A sentence, if there is no such. "" is a name as well: of sessions without a project."""
    names = set(known)
    if name is None or name in names:
        return []
    names.discard("")
    near = get_close_matches(name, sorted(names), n=NAMED, cutoff=0.5)
    order = [*near, *sorted(names - set(near))]
    more = f" and {len(order) - NAMED} more" if len(order) > NAMED else ""
    listed = ", ".join(each[:NAME_MAX] for each in order[:NAMED])
    there = f"; there are: {listed}{more}" if listed else ", nor any other yet"
    return [f"There is no {kind} `{name[:NAME_MAX]}`{there}."]
