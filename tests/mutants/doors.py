"""Mutants of who is kept from the hooks and from what the collector shows."""

from __future__ import annotations

from tests.mutants.runner import Edit, Mutant

_HOOKS = "cli/adsum/hooks.py"
_RECEIVER = "collector/adsum_collector/listening/receiver.py"
_UP = "cli/adsum/up.py"
_REPORTS = "hub/adsum_hub/session_endpoints.py"
_REPORTING = "tests/unit/hub/test_session_endpoints.py"
_DOOR = "tests/unit/collector/test_receiver.py"

MUTANTS = (
    Mutant(
        "shows the spool to anybody on the machine",
        "other users learn of what is going on here",
        (
            Edit(
                _RECEIVER,
                '        if scope["path"] == "/spool":\n            self._is_trusted(scope, headers)\n',
                '        if scope["path"] == "/spool":\n',
            ),
        ),
        (f"{_DOOR}::test_other_users_without_the_token_learn_only_whether_it_is_ready",),
    ),
    Mutant(
        "posts hooks where others have an account",
        "whoever takes the port meanwhile is told prompts and the token",
        (Edit(_HOOKS, "if others := others_here():", "if others := []:"),),
        (
            "tests/integration/test_cli_hooks.py::test_where_others_have_an_account_the_shim_is_chosen_and_said",
        ),
    ),
    Mutant(
        "keeps the token though a stranger listens",
        "whoever took the port reports sessions of its own by it",
        (Edit(_UP, "        renew_token(self.setup.state_dir)\n", ""),),
        (
            "tests/unit/cli/test_offer.py"
            "::test_a_port_that_a_stranger_holds_is_left_with_another_token_and_without_hooks",
        ),
    ),
    Mutant(
        "takes any session's token for this one's",
        "an agent reports that another's review has passed",
        (Edit(_REPORTS, "if place.id != view_id(told.host_id, told.session_id):", "if False:"),),
        (f"{_REPORTING}::test_a_token_is_good_for_its_own_session_alone",),
    ),
    Mutant(
        "takes a token that no machine has made",
        "whoever reaches the hub reports in any session's name",
        (Edit(_REPORTS, "or not _has_made(host, told)", ""),),
        (f"{_REPORTING}::test_a_token_is_good_for_its_own_session_alone",),
    ),
    Mutant(
        "lets whoever names another scheme past the gate",
        "the gate takes it for a session's token, and what it leads to for an operator",
        (
            Edit(
                "hub/adsum_hub/auth/gate.py",
                'bearer_in(Headers(scope=scope).get("authorization", ""))',
                'Headers(scope=scope).get("authorization", "").partition(" ")[2]',
            ),
        ),
        (f"{_REPORTING}::test_the_gate_takes_for_a_sessions_token_what_the_endpoint_does_as_well",),
    ),
)
