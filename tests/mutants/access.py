"""Mutants of access: who signs in, which machine writes what, and what other users can read."""

from __future__ import annotations

from tests.mutants.runner import Edit, Mutant

_GATE = "hub/adsum_hub/auth/gate.py"
_ENDPOINTS = "hub/adsum_hub/session_endpoints.py"
_CREDENTIALS = "hub/adsum_hub/auth/credentials.py"
_SHIM = "collector/adsum_collector/shim.py"

_AUTH = "tests/unit/hub/auth/test_authenticator.py"
_REPORTING = "tests/unit/hub/test_session_endpoints.py"
_OWN = f"{_REPORTING}::test_a_token_is_good_for_its_own_session_alone"

_STORE = "tests/unit/hub/auth/test_store.py"
_SECRET = "tests/integration/test_hub_secret.py"

MUTANTS = (
    Mutant(
        "A record that the hub's secret did not seal opens nothing.",
        (Edit("hub/adsum_hub/auth/sealed.py", "unsealed", "record if valid else None", "record"),),
        (f"{_SECRET}::test_the_hubs_redis_login_alone_opens_nothing",),
    ),
    Mutant(
        "A revoked credential stays so when its old record is put back.",
        (Edit(_CREDENTIALS, "SecretStore._decoded", "digest in self._seal.revoked", "False"),),
        (f"{_STORE}::test_an_old_record_put_back_after_it_was_revoked_lets_nobody_in",),
    ),
    Mutant(
        "A credential that its list does not name opens nothing.",
        (Edit(_CREDENTIALS, "SecretStore.find", "raw is not None and ...", "False"),),
        (f"{_STORE}::test_a_record_that_no_list_names_lets_nobody_in",),
    ),
    Mutant(
        "A hub with an empty state directory signs no records of an earlier version.",
        (
            Edit(
                "hub/adsum_hub/auth/hub_secret.py",
                "HubSecret.__init__",
                "self._note() is None and ...",
                "False",
            ),
        ),
        (f"{_SECRET}::test_a_hub_with_an_empty_state_directory_signs_nothing_and_says_so",),
    ),
    Mutant(
        "A hub that is given its secret signs no records of an earlier version.",
        (
            Edit(
                "hub/adsum_hub/auth/hub_secret.py",
                "HubSecret.__init__",
                "self._secret is not None and ...",
                "False",
            ),
        ),
        (f"{_SECRET}::test_a_hub_that_is_given_its_secret_signs_nothing_planted",),
    ),
    Mutant(
        "A changed or second key of a hub takes a person.",
        (Edit("cli/adsum/control.py", "_require_yes", "new and ...", "False"),),
        (
            "tests/integration/test_cli_control.py"
            "::test_a_changed_or_second_key_takes_a_person_and_yes_does_not_count",
        ),
    ),
    Mutant(
        "The key of a hub that another account runs on this machine is not trusted.",
        (
            Edit(
                "cli/adsum/control.py",
                "_keys_of",
                "parts.hostname in LOOPBACK and ... and ...",
                "False",
            ),
        ),
        (
            "tests/integration/test_cli_control.py"
            "::test_the_key_of_another_accounts_program_is_not_trusted",
        ),
    ),
    Mutant(
        "While Redis is away, a remembered sign-in cannot change anything.",
        (Edit(_GATE, "Authenticator.authenticate", "not only_looks", "False"),),
        (f"{_AUTH}::test_without_redis_they_look_and_do_no_more",),
    ),
    Mutant(
        "What only admins may do rests on no cached credential.",
        (Edit(_GATE, "Gate._admit", "0 if needed == 'admin' else FRESH_MS", "FRESH_MS"),),
        ("tests/unit/hub/auth/test_gate.py::test_what_admins_do_rests_on_no_cached_credential",),
    ),
    Mutant(
        "An overloaded hub believes no remembered sign-in.",
        (Edit(_GATE, "Authenticator._ask", "ExhaustedError", "ZeroDivisionError"),),
        (f"{_AUTH}::test_where_the_hub_itself_has_too_much_to_do_nothing_remembered_is_believed",),
    ),
    Mutant(
        "One address cannot use up the login attempts of all.",
        (
            Edit(
                "hub/adsum_hub/auth/credentials.py",
                "LoginRateLimit.count",
                "wait or ...",
                "await self._counted(ALL, MOST_OF_ALL) or wait",
            ),
        ),
        (
            "tests/integration/test_rate_limit.py"
            "::test_what_an_address_tries_beyond_its_limit_locks_out_no_other",
        ),
    ),
    Mutant(
        "Forwarded addresses are believed only behind a configured proxy.",
        (
            Edit(
                "hub/adsum_hub/app.py",
                "trusted_proxies",
                "... if ... else ''",
                "'127.0.0.1,::1'",
            ),
        ),
        ("tests/unit/hub/test_app.py::test_a_proxy_is_believed_where_one_is_configured",),
    ),
    Mutant(
        "An operator of some machines does nothing on others.",
        (Edit(_GATE, "require_in_reach", "grant.hosts and ...", "False"),),
        (
            "tests/unit/hub/auth/test_gate.py"
            "::test_an_operator_of_some_machines_does_nothing_on_others",
        ),
    ),
    Mutant(
        "A session's token reports for that session only.",
        (Edit(_ENDPOINTS, "ReportEndpoints._place", "place.id != ...", "False"),),
        (_OWN,),
    ),
    Mutant(
        "A session's token counts only if its machine made it.",
        (Edit(_ENDPOINTS, "ReportEndpoints._place", "_has_made(...)", "True"),),
        (_OWN,),
    ),
    Mutant(
        "The gate and the endpoint read the same token.",
        (
            Edit(
                _GATE,
                "_reports",
                "bearer_in(...)",
                "Headers(scope=scope).get('authorization', '').partition(' ')[2]",
            ),
        ),
        (f"{_REPORTING}::test_the_gate_takes_for_a_sessions_token_what_the_endpoint_does_as_well",),
    ),
    Mutant(
        "A machine writes under its own name only.",
        (
            Edit(
                "hub/adsum_hub/join/ingest.py", "Ingest._answered", "asked.host_id != ...", "False"
            ),
        ),
        ("tests/unit/hub/test_ingest.py::test_what_is_not_to_pass_does_not",),
    ),
    Mutant(
        "A machine's Redis user reaches its own keys only.",
        (
            Edit(
                "hub/adsum_hub/join/rights.py",
                "rules_of",
                "f'(+set %W~{beat})'",
                "f'(+set +sadd %W~{beat} %W~{streams.HOSTS})'",
            ),
        ),
        ("tests/integration/test_join.py::test_a_machines_user_reaches_its_own_keys_alone",),
    ),
    Mutant(
        "A machine cannot list any number of sessions.",
        (Edit("hub/adsum_hub/host.py", "Host._fold", "self.is_full", "False"),),
        (
            "tests/unit/hub/test_roster_full.py"
            "::test_sessions_beyond_the_most_are_left_out_and_told",
        ),
    ),
    Mutant(
        "A hook that waits for a person is never posted over HTTP.",
        (
            Edit(
                "collector/adsum_collector/agents/claude_code/settings_text.py",
                "is_posted",
                "event not in ...",
                "True",
            ),
        ),
        (
            "tests/unit/collector/test_install_events.py"
            "::test_what_is_answered_for_a_human_is_never_posted",
        ),
    ),
    Mutant(
        "The shim sends nothing to another user's socket.",
        (Edit(_SHIM, "exchange", "peer_uid(...) not in friends", "False"),),
        (
            "tests/unit/collector/test_shim.py"
            "::test_a_socket_that_was_given_our_name_by_another_listener_is_told_nothing",
        ),
    ),
    Mutant(
        "The token of the hooks is renewed when another user holds the port.",
        (
            Edit(
                "collector/adsum_collector/listening/sockets.py",
                "_listen_http",
                "renew_token(...)",
                "None",
            ),
        ),
        (
            "tests/unit/collector/test_sockets.py"
            "::test_a_collector_whose_port_another_user_holds_renews_the_hooks_token",
        ),
    ),
    Mutant(
        "Other users cannot read a settings file that holds a token.",
        (
            Edit(
                "collector/adsum_collector/agents/settings_file.py",
                "_mode_for",
                "(now & ~OTHERS, now)",
                "(None, now)",
            ),
        ),
        (
            "tests/unit/collector/test_install.py"
            "::test_a_file_that_is_given_a_token_is_closed_and_opened_again_without_it",
        ),
    ),
    Mutant(
        "The collector follows no link in the place of its own files.",
        (Edit("shared/adsum_shared/private_files.py", "open_private", "os.O_NOFOLLOW", "0"),),
        ("tests/unit/shared/test_private_files.py::test_the_collectors_lock_follows_no_link",),
    ),
    Mutant(
        "Other users of the machine see only whether the collector is ready.",
        (
            Edit(
                "collector/adsum_collector/listening/receiver.py",
                "Receiver._answer_probe",
                "self._is_trusted(...)",
                "None",
            ),
        ),
        (
            "tests/unit/collector/test_receiver.py"
            "::test_other_users_without_the_token_learn_only_whether_it_is_ready",
        ),
    ),
    Mutant(
        "Names reach a terminal without escape codes.",
        (Edit("cli/adsum/outcome.py", "put", "safe(text)", "text"),),
        (
            "tests/integration/test_cli_hostile.py"
            "::test_no_name_reaches_a_terminal_as_more_than_a_name[usage --by host --csv]",
        ),
    ),
    Mutant(
        "Codex is asked to trust only our own hooks.",
        (
            Edit(
                "collector/adsum_collector/agents/codex/agent.py",
                "_trusted",
                "filter(...)",
                "found.values()",
            ),
        ),
        ("tests/unit/collector/test_codex_install.py::test_exactly_our_own_entries_are_trusted",),
    ),
    Mutant(
        "A secret behind an option of a program is masked.",
        (Edit("shared/adsum_shared/redact.py", "redact_text", "_mask_options(...)", "text"),),
        ("tests/unit/shared/test_redact.py::test_a_planted_secret_is_masked",),
    ),
    Mutant(
        "A digest is not masked for a secret.",
        (Edit("shared/adsum_shared/secrets.toml", "", "(?<!cache[_-]key)", ""),),
        ("tests/unit/shared/test_redact.py::test_a_digest_stays",),
    ),
    Mutant(
        "A message to a phone or a channel holds no secret.",
        (Edit("hub/adsum_hub/notify/messages.py", "_cut", "redact_text(...)", "clean(text)"),),
        ("tests/unit/hub/notify/test_messages.py::test_a_message_holds_no_secret",),
    ),
)
