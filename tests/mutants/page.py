"""Mutants of the page's guards: what keeps a press from deciding what nobody has looked at."""

from __future__ import annotations

from tests.mutants.runner import Edit, Mutant

_STATE = "hub/adsum_hub/web/control/state.js"
_TESTS = "tests/browser/test_deciding.py"

MUTANTS = (
    Mutant(
        "decides what has only just come",
        "a press meant for another request allows this one",
        (
            Edit(
                _STATE,
                'if (standing.has(row) && row.dataset.ready === "true") return true;',
                "return true;",
            ),
        ),
        (f"{_TESTS}::test_a_press_on_what_has_only_just_come_decides_nothing",),
    ),
    Mutant(
        "does not notice that a card has moved",
        "a press meant for another request allows this one",
        (Edit(_STATE, "if (seen && seen.top !== top)", "if (false)"),),
        (f"{_TESTS}::test_a_card_that_slips_under_the_pointer_is_not_decided",),
    ),
    Mutant(
        "sends a held decision whatever is asked by then",
        "what was asked meanwhile is denied unseen",
        (Edit(_STATE, "const gone = asked !== undefined &&", "const gone = false &&"),),
        (f"{_TESTS}::test_a_denial_of_what_is_asked_no_more_is_not_sent",),
    ),
    Mutant(
        "sends a held decision of a page that was left",
        "who went away could not take it back",
        (Edit(_STATE, '=== "hidden" && leave()', '=== "hidden"'),),
        (f"{_TESTS}::test_leaving_the_page_cancels_what_could_still_be_taken_back",),
    ),
    Mutant(
        "allows at the first press what may be dear",
        "a press too many deletes a branch",
        (
            Edit(
                "hub/adsum_hub/web/control/view.js", "if (!grave) return onDo();", "return onDo();"
            ),
        ),
        (f"{_TESTS}::test_what_may_be_dear_is_allowed_at_the_second_press_only",),
    ),
    Mutant(
        "decides on a page whose link is cut",
        "what is shown there may be long over",
        (Edit(_STATE, 'if (stale.value || linkState.value.phase !== "live")', "if (false)"),),
        (f"{_TESTS}::test_a_cut_link_ends_deciding_and_keeps_what_was_typed",),
    ),
)
