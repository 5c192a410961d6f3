"""Expiry: what was delivered long ago becomes history, and of history what is too much is dropped. Pure."""

from __future__ import annotations

from adsum_hub.host import KEEP_DELIVERED_MS, Host
from adsum_hub.past import stripped, surplus
from adsum_shared.state import Group


def expire(host: Host, now: int) -> set[str]:
    """The sessions that are not listed any longer. now: the hub's clock.

    What never came to be a session is dropped as well, a week after its last sign; what it has
    spent stays spent.
    """
    host_now = host.clock.host_now(now)
    oldest = host_now - KEEP_DELIVERED_MS
    listed = host.facts.keys() - host.past.keys()
    old = [key for key in listed if host.facts[key].updated_at < oldest]
    over: set[str] = set()
    phantoms: set[str] = set()
    for key in old:
        state, facts = host.states.get(key), host.facts[key]
        phantom = state is None and not facts.past and not facts.materialised
        delivered = state is not None and state.group is Group.DELIVERED
        if delivered or (phantom and (facts.usage or facts.costs)):
            host.facts[key] = stripped(facts, state)
            host.states.pop(key, None)
            host.past[key] = host.facts[key].ended_at
            over.add(key)
        elif phantom:
            phantoms.add(key)
    surplus_now = surplus(host.past, host_now)
    host.dropped += len(surplus_now)
    gone = phantoms | surplus_now
    for key in gone:
        del host.facts[key]
        host.past.pop(key, None)
    host.saved.change(over - gone)
    host.saved.drop(gone)
    return over | gone
