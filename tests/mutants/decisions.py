"""Mutants of what people decide about sessions."""

from __future__ import annotations

from tests.mutants.runner import Edit, Mutant

_DISMISSALS = "hub/adsum_hub/rest/dismissals.py"
_TESTS = "tests/integration/test_dismissals.py"

MUTANTS = (
    Mutant(
        "dismisses as of now",
        "a permission that was asked just before, and is on its way, stays hidden",
        (Edit(_DISMISSALS, "at, happened(facts))", "at, at)"),),
        (
            f"{_TESTS}::test_what_happened_before_the_decision_and_comes_after_it_has_been_seen_by_nobody",
        ),
    ),
    Mutant(
        "lets an earlier decision win",
        "what one hub took back stays dismissed at another",
        (Edit("hub/adsum_hub/roster.py", "held[session_id].at >= told.at", "session_id in held"),),
        (f"{_TESTS}::test_another_hub_learns_of_each_decision",),
    ),
    Mutant(
        "trusts Redis to keep what was dismissed",
        "after a wipe the next hub that starts calls for humans again",
        (
            Edit(
                _DISMISSALS,
                "(known := stored.get(key)) is None or known.at < told.at",
                "False",
            ),
        ),
        (f"{_TESTS}::test_a_redis_that_was_wiped_is_told_anew",),
    ),
)
