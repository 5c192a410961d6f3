"""Mutants of who is kept from the hooks and from what the collector shows."""

from __future__ import annotations

from tests.mutants.runner import Edit, Mutant

_HOOKS = "cli/adsum/hooks.py"
_RECEIVER = "collector/adsum_collector/receiver.py"
_UP = "cli/adsum/up.py"
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
)
