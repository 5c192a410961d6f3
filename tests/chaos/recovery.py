"""How long after a fault's end everything works again, where no other fault hides it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tests.chaos.ledger import Sent
from tests.chaos.scene import Done


def recoveries(
    faults: Sequence[Done], sent: Iterable[Sent], seen: Mapping[str, Mapping[str, float]]
) -> dict[str, list[float]]:
    """Kind -> seconds from its end until of every host something sent since was on every hub."""
    shown = _shown_everywhere(sent, seen)
    found: dict[str, list[float]] = {}
    for fault in faults:
        took = recovery(fault.ended, shown)
        if took is not None and not _disturbed(fault, faults, fault.ended + took):
            found.setdefault(fault.kind, []).append(took)
    return found


def recovery(ended: float, shown: Mapping[str, Sequence[tuple[float, float]]]) -> float | None:
    """shown: host -> (sent, on the last hub). None: of some host nothing that came later is known."""
    first = [min((on for at, on in pairs if at >= ended), default=None) for pairs in shown.values()]
    return None if not first or None in first else max(on for on in first if on) - ended


def _shown_everywhere(
    sent: Iterable[Sent], seen: Mapping[str, Mapping[str, float]]
) -> dict[str, list[tuple[float, float]]]:
    shown: dict[str, list[tuple[float, float]]] = {}
    for each in sent:
        on = [times.get(each.id) for times in seen.values()]
        if None not in on and each.source != "forged":
            shown.setdefault(each.host, []).append((each.at, max(at for at in on if at)))
    return shown


def _disturbed(fault: Done, faults: Sequence[Done], until: float) -> bool:
    return any(
        other is not fault and other.began < until and (other.ended or until) > fault.ended
        for other in faults
    )
