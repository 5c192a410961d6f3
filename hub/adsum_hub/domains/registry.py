"""Finding domains: the three built in, and those that installed packages bring by entry point."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import Any, NamedTuple

import pluggy

from adsum_hub.domains import creative, research, sdlc
from adsum_hub.domains.contract import API_VERSION, GROUP, DomainSpec
from adsum_shared.state import SessionView

Interpret = Callable[[SessionView], object]

BUILT_IN = {"sdlc": sdlc, "creative": creative, "research": research}
NEXT = "Repair or remove that package and restart the hub; it runs without this domain."


class Found(NamedTuple):
    """faults: for people, one sentence or two for each domain that cannot be used."""

    domains: dict[str, Interpret]
    broken: frozenset[str]
    faults: tuple[str, ...]


class UnusableError(Exception):
    """A domain cannot be used; says why."""


def find(installed: Iterable[EntryPoint] | None = None) -> Found:
    """installed: the entry points; by default those of this environment. Imports what they name."""
    points = entry_points(group=GROUP) if installed is None else installed
    domains = {name: _checked(name, module) for name, module in BUILT_IN.items()}
    origins = dict.fromkeys(BUILT_IN, "Adsum")
    broken, faults = set(), []
    # By package, so that all hubs of one installation choose alike.
    for point in sorted(points, key=lambda each: (each.name, _package(each), each.value)):
        package = _package(point)
        if point.name in origins:
            cause = f"is already brought by {origins[point.name]}"
            faults.append(f"Domain {point.name} of {package} {cause}, which stays. {NEXT}")
            continue
        origins[point.name] = package
        try:
            domains[point.name] = _checked(point.name, _load(point))
        except UnusableError as error:
            broken.add(point.name)
            faults.append(f"Domain {point.name} of {package} cannot be used: {error}. {NEXT}")
    return Found(domains, frozenset(broken), tuple(faults))


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else "an unnamed package"


def _load(point: EntryPoint) -> Any:
    try:
        return point.load()
    # Whatever somebody else's module does when it is imported, sys.exit() too, must not end a hub.
    except (Exception, SystemExit) as error:
        said = str(error).partition("\n")[0][:200]
        raise UnusableError(f"its import fails with {type(error).__name__} ({said})") from error


def _checked(name: str, plugin: Any) -> Interpret:
    """A plugin manager for each: a fault of one stays its own."""
    version = getattr(plugin, "adsum_domain_api", None)
    if version != API_VERSION:
        told = "names no version" if version is None else f"is written for version {version!r:.20}"
        raise UnusableError(f"it {told} of the contract (adsum_domain_api), this is {API_VERSION}")
    manager = pluggy.PluginManager(GROUP)
    manager.add_hookspecs(DomainSpec)
    try:
        manager.register(plugin, name)
    except pluggy.PluginValidationError as error:
        raise UnusableError("its interpret takes other arguments than session") from error
    except Exception as error:  # every attribute of the plugin is looked at, and may be code
        raise UnusableError(f"looking at it fails with {type(error).__name__}") from error
    hook = manager.hook.interpret
    if not hook.get_hookimpls():
        raise UnusableError("it has no function interpret marked with hookimpl")
    return lambda session: hook(session=session)
