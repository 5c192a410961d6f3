"""One session in full as text: its state and facts, its witnesses, children and activity. Pure."""

from collections.abc import Iterator, Sequence

from rich.cells import cell_len, set_cell_size
from rich.console import Group as Stack
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from adsum.text.tables import icon_of
from adsum.text.words import (
    PRICES,
    age,
    cost,
    limit_words,
    missing_of,
    moment,
    percent,
    short,
    witness_word,
)
from adsum_shared.characters import escape_code
from adsum_shared.redact import clean
from adsum_shared.state import (
    ActivityEntry,
    ChildView,
    GapView,
    RequestView,
    SessionView,
    UsageView,
)

#: Children that have finished are of less interest, and a long session has had many.
FINISHED_MOST = 10

#: States of a session whose process has gone, and its children with it.
ENDED = ("session_ended", "suspended")

TEXT_MOST = 400
#: The page has the same words, in web/core/format.js.
COST_SOURCES = {
    "reported": "as the agent reports",
    "computed": "from list prices",
    "mixed": "in part as the agent reports, in part from list prices",
    "plan": "a plan pays, tokens are not billed",
}

PROBLEMS = {
    "missing": "its hooks do not come (out of the settings, or switched off), so a permission shows late",
    "doubled": "every hook comes twice, because they are installed in two places",
}


def session_details(
    view: SessionView,
    entries: Sequence[ActivityEntry],
    now: int,
    gaps: Sequence[GapView] = (),
    *,
    plain: bool = False,
) -> Stack:
    """All of it, one below the other. gaps, plain: see `facts_table`."""
    parts: list[RenderableType] = [facts_table(view, now, gaps, plain=plain)]
    if view.children:
        parts += [Text(), family_tree(view, now)]
    if entries:
        parts += [Text("\nactivity", "dim"), activity_lines(view, entries, now)]
    return Stack(*parts)


def facts_table(
    view: SessionView, now: int, gaps: Sequence[GapView] = (), *, plain: bool = False
) -> Table:
    """gaps: its host's. plain: for a terminal without Unicode."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in _facts(view, now, gaps, plain=plain):
        if value:
            table.add_row(name, Text(clean(value)))  # `adsum top` draws it past our console
    return table


def _facts(
    view: SessionView, now: int, gaps: Sequence[GapView], *, plain: bool
) -> Iterator[tuple[str, str]]:
    state = view.state
    host = clean(view.host) + ("" if view.reachability == "live" else f" ({view.reachability})")
    label = f"{icon_of(view, plain=plain)} {clean(state.label)} ({clean(state.state)})"
    yield "state", f"{label}, for {age(now - state.since)}"
    if view.display is not None:
        said = [view.display.label, *(chip.text for chip in view.display.chips)]
        yield "shown as", clean(", ".join(word for word in said if word))
    yield "because of", f"{state.source}, confidence {state.confidence:.0%}"
    yield "title", clean(view.title)
    yield "last prompt", cut(view.last_prompt)
    yield "last answer", cut(view.last_answer)
    yield "host", host
    yield "project", clean(view.project)
    yield "directory", escape_code(view.cwd or "")
    yield "worktree", escape_code(view.worktree or "")
    yield from (("branch", clean(view.branch)), ("team mate", clean(view.mate)))
    yield "to review", clean(view.review.label if view.review else None)
    yield "reported", reported(view, now)
    yield "suspended", _suspended(view, now)
    yield "PR", escape_code(view.pr or "")
    yield "forked from", clean(view.forked_from)
    yield "model", clean(view.model)
    yield "mode", clean(view.mode)
    yield "process", str(view.pid or "")
    yield "started", ago(view.started_at, now)
    yield "ended", ago(view.ended_at, now)
    yield "changed", f"{age(now - view.updated_at)} ago"
    yield from _used_up(view, now, plain=plain)
    heard = [each for each in view.witnesses if each.heard_at]
    ages = [f"{witness_word(each.name)} {age(now - each.heard_at)}" for each in heard]
    yield "heard", f"{', '.join(ages)} ago" if ages else ""
    for each in view.witnesses:
        if each.problem:
            why = PROBLEMS.get(each.problem, f"{witness_word(each.name)}: {clean(each.problem)}")
            yield "trouble", f"{why}. On {clean(view.host)}: adsum doctor"
    yield "id", view.id
    children = {child.id for child in view.children}
    for request in view.requests:
        if request.agent_id not in children:
            yield "waits for", asked(request, now)
    if view.incomplete:
        for sentence in missing_of(view, gaps, now):
            yield "missing", clean(sentence)


def reported(view: SessionView, now: int) -> str:
    """The agent's own word of its work."""
    told = view.report
    if told is None:
        return ""
    said = " ".join(filter(None, (clean(told.status), clean(told.issue))))
    by = f" by {clean(told.by)}" if told.by else ""
    notes = f": {clean(told.notes)}" if told.notes else ""
    return f"{said}{by}, {age(now - told.at)} ago{notes}"


def _suspended(view: SessionView, now: int) -> str:
    told = view.suspended
    if told is None:
        return ""
    who = "by itself, as it rested" if told.auto else f"by {clean(told.by)}"
    return f"{who}, {age(now - told.since)} ago, {told.freed_bytes >> 20} MB freed"


def cut(text: str | None) -> str:
    said = clean(text)
    return said if len(said) <= TEXT_MOST else f"{said[: TEXT_MOST - 1].rstrip()}…"


def ago(at: int | None, now: int) -> str:
    return f"{age(now - at)} ago ({moment(at, now)})" if at else ""


def _used_up(view: SessionView, now: int, *, plain: bool) -> Iterator[tuple[str, str]]:
    if view.usage is not None:
        yield "tokens", _token_words(view.usage)
    if view.plan is not None:
        yield "plan", "; ".join(map(clean, (view.plan.name, *limit_words(view.plan.limits, now))))
    elif view.usage is not None:
        yield "cost", cost_words(view.usage, clean(view.model), plain=plain)
    if view.context is not None:
        tokens, size = view.context.tokens, view.context.size
        of = f" of {short(size)} ({percent(tokens, size)})" if size else ""
        yield "context", f"{short(tokens)}{of}"


def _token_words(usage: UsageView) -> str:
    said = [f"{short(usage.input_tokens)} in", f"{short(usage.output_tokens)} out"]
    said.append(f"cache {short(usage.cache_read_tokens)} read")
    said.append(f"{short(usage.cache_write_tokens)} written")
    if usage.web_searches:
        said.append(f"{usage.web_searches:,} web searches")
    return ", ".join(said)


def cost_words(usage: UsageView, model: str, *, plain: bool) -> str:
    """Whose word it is, and what to do about tokens without a price."""
    said = [cost(usage, plain=plain)]
    if usage.cost_usd is not None:
        said.append(COST_SOURCES.get(usage.cost_source, clean(usage.cost_source)))
    if usage.unpriced_tokens:
        of = f" of {model}" if model and usage.cost_usd is None else ""
        said.append(f"{short(usage.unpriced_tokens)} tokens{of} have no price. {PRICES}")
    return ", ".join(said)


def asked(request: RequestView, now: int) -> str:
    what = f"{clean(request.kind)} {clean(request.tool)}".rstrip()
    if request.summary:
        what = f"{what}: {clean(escape_code(request.summary))}"
    return f"{what} (since {age(now - request.opened_at)})"


def family_tree(view: SessionView, now: int) -> Tree:
    """Each child with what it waits for; of those that have finished the last few."""
    tree = Tree(Text("children", style="dim"), guide_style="dim")
    running = [child for child in view.children if child.finished_at is None]
    finished = [child for child in view.children if child.finished_at is not None]
    for child in (*running, *finished[:FINISHED_MOST]):
        branch = tree.add(_child(child, now, over=view.state.state in ENDED))
        for request in view.requests:
            if request.agent_id == child.id:
                branch.add(Text(f"waits for {asked(request, now)}", style="yellow"))
    if len(finished) > FINISHED_MOST:
        tree.add(Text(f"and {len(finished) - FINISHED_MOST} more that have finished", style="dim"))
    return tree


def _child(child: ChildView, now: int, *, over: bool) -> Text:
    at = child.finished_at or child.started_at
    since = "" if at is None else age(now - at)
    when = since and (f" {since} ago" if child.finished_at else f", for {since}")
    if child.status == "orphaned":
        when = ", its session ended" if over else f", no word for {since}"
    line = Text(f"{clean(child.kind)} ", style="dim" if child.finished_at else "")
    return line.append(f"{child_name(child)}: {clean(child.status)}{when}")


def child_name(child: ChildView) -> str:
    return clean(child.description) or clean(child.type) or clean(child.id)[:8]


def activity_lines(view: SessionView, entries: Sequence[ActivityEntry], now: int) -> Stack:
    """Newest last, one line each: its end is cut where it does not fit."""
    names = {child.id: child_name(child) for child in view.children}
    ages = [age(now - entry.at) for entry in entries]
    wide, kinds = max(map(len, ages)), max(cell_len(clean(entry.kind)) for entry in entries)
    lines = []
    for entry, at in zip(entries, ages, strict=True):
        is_code = entry.kind.startswith(("tool.", "request."))
        text = Text(clean(escape_code(entry.text or "") if is_code else entry.text))
        if entry.agent_id and not entry.kind.startswith("child."):
            who = names.get(entry.agent_id, clean(entry.agent_id)[:8])
            text = Text.assemble((f"[{who}] ", "dim"), text)
        kind = set_cell_size(clean(entry.kind), kinds)
        before = (f"{at:>{wide}}  {kind}  ", "dim")
        lines.append(Text.assemble(before, text, no_wrap=True, overflow="ellipsis"))
    return Stack(*lines)
