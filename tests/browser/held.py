"""Fleets whose requests can be decided from the page: each kind of them, and what keeps one from it."""

from __future__ import annotations

from typing import Any

from playwright.async_api import Page

from adsum_shared.state import HoldView, HostView, RequestView, SessionView
from tests.browser import fleets

MINUTE = fleets.MINUTE
STATES = {
    "permission": ("needs_permission", "Needs permission: Bash"),
    "question": ("awaiting_input", "Asks a question"),
    "plan": ("awaiting_approval", "Plan ready for review"),
    "dialog": ("awaiting_input", "A server asks for input"),
}
VERBS = {
    "permission": ("allow", "deny", "defer"),
    "question": ("answer", "deny", "defer"),
    "plan": ("plan", "deny", "defer"),
    "dialog": ("elicit", "deny", "defer"),
}
QUESTIONS = [
    {
        "question": "Which colour?",
        "header": "Colour",
        "options": [
            {"label": "Red", "description": "As the old one was"},
            {"label": "Blue", "description": "As the brand has it"},
        ],
    },
    {
        "question": "Which parts?",
        "options": [{"label": "Roof"}, {"label": "Walls"}, {"label": "Door"}],
        "multiSelect": True,
    },
]
FORM = {
    "message": "Where is it to go?",
    "requested_schema": {
        "type": "object",
        "properties": {
            "branch": {"type": "string", "title": "Branch", "description": "An existing one"},
            "count": {"type": "integer", "title": "How many"},
            "kind": {"type": "string", "enum": ["soft", "hard"], "enumNames": ["Soft", "Hard"]},
            "force": {"type": "boolean", "title": "By force"},
        },
        "required": ["branch", "count"],
    },
}
PLAN = """# Move the refunds

Two steps, *nothing* else:

1. Write `settled_at` **once**
   - in the worker
   - not in the view
2. Drop the old column

```sql
ALTER TABLE refunds
  DROP COLUMN settled;
```

> Ask Ada first.

<script>alert(1)</script> <!-- unseen -->
"""
EDIT = {
    "file_path": "/home/ada/src/api/refunds/settle.py",
    "old_string": "def settle(refund):\n    refund.settled = True\n    refund.save()",
    "new_string": "def settle(refund):\n    refund.settled_at = now()\n    refund.save()\n    tell(refund)",
}


def held(
    name: str,
    now: int,
    kind: str = "permission",
    payload: dict[str, Any] | None = None,
    hold: dict[str, Any] | None = None,
    **more: Any,
) -> SessionView:
    """A session that asks so; hold: fields of HoldView; more: of SessionView, and `role`, `tool`."""
    about = {
        "binding": f"b-{name}",
        "verbs": VERBS[kind],
        "until": now + 60 * MINUTE,
        "cwd": "/home/ada/src",
    }
    request = RequestView(
        id=f"r-{name}",
        kind=kind,
        opened_at=now - MINUTE,
        tool=more.pop("tool", "Bash" if kind == "permission" else None),
        role=more.pop("role", "shell" if kind == "permission" else "other"),
        payload=payload if payload is not None else {"command": "make all"},
        hold=HoldView(**(about | (hold or {}))),
    )
    state, label = STATES[kind]
    about_it = {"title": f"Work on {name}", "cwd": "/home/ada/src", "requests": (request,)}
    return fleets.session(name, state, label, now=now, **(about_it | more))


async def swipe(page: Page, way: str) -> None:
    """Draw a finger over the card, to the right to allow, to the left to deny."""
    await page.locator(".card").evaluate(
        """(card, by) => {
          const at = (type, x) => card.dispatchEvent(new PointerEvent(type, { pointerType: "touch", isPrimary: true,
            pointerId: 7, clientX: 200 + x, clientY: 300, bubbles: true }));
          at("pointerdown", 0); at("pointermove", by / 2); at("pointermove", by); at("pointerup", by);
        }""",
        160 if way == "allow" else -160,
    )


def every_kind(now: int) -> tuple[list[SessionView], list[HostView]]:
    always = {"verbs": ("allow", "always", "deny", "defer"), "always": ("Bash(make:*)",)}
    write = {"file_path": "/home/ada/src/new.py", "content": "import this\n\nprint(this)\n"}
    sessions = [
        held("make-1", now, payload={"command": "make all", "description": "Build"}, hold=always),
        held("make-2", now, payload={"command": "make all", "description": "Build"}),
        held("grave-1", now, payload={"command": "git push --force origin main"}),
        held("edit-1", now, payload=EDIT, tool="Edit", role="edit"),
        held("write-1", now, payload=write, tool="Write", role="write"),
        held("partial-1", now, hold={"verbs": ("deny", "defer"), "partial": True}),
        held("mcp-1", now, payload={"title": "Broken", "labels": ["a"]}, tool="mcp__forge__issue"),
        held("plan-1", now, "plan", {"plan": PLAN}),
        held("ask-1", now, "question", {"questions": QUESTIONS[:1]}),
        held("ask-2", now, "question", {"questions": QUESTIONS}),
        held("form-1", now, "dialog", FORM, tool="forge"),
    ]
    return sessions, [fleets.host("alpha", now, control="approve")]
