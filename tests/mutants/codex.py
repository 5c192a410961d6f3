"""What Codex's hooks rest on, each taken out."""

from __future__ import annotations

from tests.mutants.runner import Edit, Mutant

_CODEX = "collector/adsum_collector/agents/codex/agent.py"
_INSTALL = "collector/adsum_collector/agents/codex/install.py"
_HOOKS = "tests/unit/collector/test_codex_install.py"

MUTANTS = (
    Mutant(
        "has Codex trust hooks that are not ours",
        "what a user has not looked at yet runs with their rights",
        (Edit(_INSTALL, "trust(app, filter(None, ours.values()))", "trust(app, found.values())"),),
        (f"{_HOOKS}::test_exactly_our_own_entries_are_trusted",),
    ),
    Mutant(
        "leaves the trust of a user's hook where that stood",
        "Codex asks its owner to review again what did not change, and skips it until then",
        (Edit(_INSTALL, "if old != new}", "if old is new}"),),
        (f"{_HOOKS}::test_the_users_hook_behind_ours_stays_trusted_when_ours_go",),
    ),
    Mutant(
        "runs the shim of Codex's hooks without looking whether it is there",
        "Python ends with 2, and Codex takes that for a refusal",
        (Edit(_INSTALL, '&& test -r "$3" ', ""),),
        (f"{_HOOKS}::test_a_hook_whose_parts_are_gone_ends_well_and_says_nothing",),
    ),
    Mutant(
        "ends a turn of Codex with the hook on Stop, whatever is read",
        "a session calls for its human while the user's own hooks on the end still run",
        (Edit(_CODEX, 'known.turn == told.get("turn_id")', "False"),),
        (
            "tests/unit/collector/test_codex.py"
            "::test_a_turn_whose_lines_are_read_is_over_when_the_users_own_hooks_have_run",
        ),
    ),
)
