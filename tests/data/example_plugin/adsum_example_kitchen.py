"""An example of a domain: sessions that edit recipes cook."""

from __future__ import annotations

from adsum_hub.domains import Chip, Display, SessionView, hookimpl

#: The version of the contract that this was written for.
adsum_domain_api = 1


@hookimpl
def interpret(session: SessionView) -> Display | None:
    context = session.state.context or {}
    if session.state.state == "acting" and str(context.get("summary")).endswith(".recipe"):
        return Display(label="Cooking", icon="coffee", chips=(Chip("hot", "warning"),))
    return None
