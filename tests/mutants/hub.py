"""Mutants of the hub: reading, folding once, saving and asking for what is missing."""

from __future__ import annotations

from tests.mutants.runner import Edit, Mutant

_AUTH = "tests/unit/hub/auth/test_authenticator.py"
_CONSUMER = "hub/adsum_hub/consumer/consumer.py"
_GATE = "hub/adsum_hub/auth/gate.py"
_LIMIT = "hub/adsum_hub/auth/credentials.py"
_SERVING = "hub/adsum_hub/app.py"
_ENVELOPE = "shared/adsum_shared/envelope.py"
_HEARTBEATS = "hub/adsum_hub/consumer/heartbeats.py"
_INBOX = "hub/adsum_hub/inbox.py"
_INGEST = "hub/adsum_hub/join/ingest.py"
_HOLES = "hub/adsum_hub/consumer/heartbeats.py"
_HOST = "hub/adsum_hub/host.py"
_JOINING = "hub/adsum_hub/join/joining.py"
_MACHINES = "hub/adsum_hub/join/machines.py"
_RIGHTS = "hub/adsum_hub/join/rights.py"
_SAVE = "hub/adsum_hub/save.lua"
_SNAPSHOTS = "hub/adsum_hub/snapshots.py"
_GROUND = "hub/adsum_hub/verdict/ground.py"
_READING = "hub/adsum_hub/verdict/reading.py"
_RULES = "hub/adsum_hub/verdict/rules.py"

_BAD = "tests/integration/test_hub_bad_entries.py"
_DELIVERY = "tests/integration/test_delivery_hub.py"
_FULL = "tests/unit/hub/test_roster_full.py"
_HUB = "tests/integration/test_hub.py"
_ROOM = "tests/integration/test_machine_room.py"
_STORED = "tests/integration/test_hub_snapshots.py"
_UNTIL = "tests/unit/hub/verdict/test_until.py"
_VIEWS = "tests/unit/hub/test_views.py"
_JOININGS = "tests/unit/hub/join/test_joining.py"
_STRANGER = f"{_DELIVERY}::test_an_older_run_that_comes_after_a_later_one_is_left_out_and_told"

MUTANTS = (
    Mutant(
        "saves without comparing versions",
        "a hub that thaws puts its old state over a newer one, whose entries are trimmed",
        (Edit(_SAVE, "if found ~= tonumber(ARGV[1]) then", "if false then"),),
        (
            f"{_DELIVERY}::test_what_a_frozen_hub_was_about_to_save_undoes_nothing_when_it_thaws",
            f"{_DELIVERY}::test_a_save_over_a_newer_snapshot_changes_nothing_and_trims_nothing",
        ),
    ),
    Mutant(
        "writes the cursor by a command of its own",
        "a crash between the two leaves a cursor beyond entries that no fold holds",
        (
            Edit(
                _SNAPSHOTS,
                "    answer: Any = await redis.eval(",
                "    key = streams.snapshot(host_id)\n"
                "    await redis.hset(key, streams.CURSOR, header.cursor)\n"
                "    answer: Any = await redis.eval(",
            ),
        ),
        (
            f"{_DELIVERY}::test_a_save_that_is_cut_off_leaves_a_snapshot_of_one_moment",
            f"{_DELIVERY}::test_a_save_over_a_newer_snapshot_changes_nothing_and_trims_nothing",
        ),
    ),
    Mutant(
        "trims by its own cursor though it lost the comparison",
        "entries go that no stored snapshot holds",
        (
            Edit(
                _SAVE,
                "if found ~= tonumber(ARGV[1]) then",
                "redis.call('XTRIM', KEYS[2], 'MINID', ARGV[2])\n"
                "if found ~= tonumber(ARGV[1]) then",
            ),
        ),
        (f"{_DELIVERY}::test_a_save_over_a_newer_snapshot_changes_nothing_and_trims_nothing",),
    ),
    Mutant(
        "trims what it has read before it has saved it",
        "a hub killed before its next snapshot takes what it read along",
        (
            Edit(
                _CONSUMER,
                "        host.read_to(entry_id)",
                "        host.read_to(entry_id)\n"
                "        await self._redis.xtrim(\n"
                "            streams.inbox(host.id), minid=host.cursor, approximate=False\n"
                "        )",
            ),
        ),
        (f"{_DELIVERY}::test_what_a_killed_hub_had_read_and_not_saved_is_still_in_the_stream",),
    ),
    Mutant(
        "never trims",
        "streams grow until Redis is out of memory",
        (Edit(_SAVE, "redis.call('XTRIM', KEYS[2], 'MINID', ARGV[2])", ""),),
        (f"{_HUB}::test_a_killed_hub_goes_on_from_its_snapshot_and_the_stream_is_trimmed",),
    ),
    Mutant(
        "applies a batch that it has applied",
        "whatever is sent twice counts twice",
        (
            Edit(
                _INBOX,
                "    if batch.last <= seen:\n        return Admission()",
                "    if batch.last <= seen:\n        return Admission(batch.signals, seen)",
            ),
        ),
        (f"{_DELIVERY}::test_a_batch_that_comes_whole_again_is_applied_once",),
    ),
    Mutant(
        "applies the whole of a batch of which it has the beginning",
        "a replay doubles what lies before the missing number",
        (Edit(_INBOX, "batch.signals[max(0, seen + 1 - batch.first) :]", "batch.signals"),),
        (
            f"{_HUB}::test_a_batch_sent_twice_is_applied_once",
            "tests/unit/hub/test_sequence.py"
            "::test_of_an_overlapping_batch_only_the_new_part_is_applied",
        ),
    ),
    Mutant(
        "numbers without asking whose",
        "a machine with a new disk is not heard until it has said as much as the old one",
        (
            Edit(
                _INBOX,
                "seen = applied.get(batch.spool_id, 0)",
                "seen = max(applied.values(), default=0)",
            ),
        ),
        (
            f"{_DELIVERY}::test_each_spool_of_a_host_counts_for_itself",
            "tests/unit/hub/test_sequence.py::test_a_new_spool_starts_at_one",
        ),
    ),
    Mutant(
        "goes over holes",
        "what Redis lost is lost, and nobody knows",
        (Edit(_INBOX, "if batch.first > seen + 1:", "if False:"),),
        (
            f"{_HUB}::test_a_hole_is_asked_for_and_filled",
            "tests/unit/hub/test_sequence.py"
            "::test_a_batch_after_a_hole_names_the_first_missing_number",
        ),
    ),
    Mutant(
        "asks for what another hub has stored already",
        "a hub behind the trim asks for numbers that their collector has dropped by then",
        (
            Edit(
                _HOLES,
                "if await self._reload_if_ahead(host, batch.spool_id, missing):",
                "if False:",
            ),
        ),
        (f"{_HUB}::test_a_hub_left_behind_by_the_trim_catches_up_from_the_snapshot",),
    ),
    Mutant(
        "does not ask a quiet host for its lost tail",
        "the last signals before a rest stay unseen for as long as it lasts",
        (Edit(_HEARTBEATS, "if applied >= beat.sent or", "if True or"),),
        (f"{_HUB}::test_a_lost_tail_of_a_quiet_host_is_asked_for",),
    ),
    Mutant(
        "asks for a hole once",
        "a request that ran out while its collector was away is never made again",
        (Edit(_HOLES, "if now - asked.at >= ASK_AGAIN_MS:", "if False:"),),
        ("tests/unit/hub/test_replays.py::test_a_request_that_expired_unseen_is_made_again",),
    ),
    Mutant(
        "never gives a hole up",
        "a host whose numbers nobody has is stuck for ever",
        (Edit(_HOLES, "if asked.replays + 1 >= FRUITLESS_REPLAYS:", "if False:"),),
        ("tests/unit/hub/test_replays.py::test_numbers_that_replays_do_not_bring_are_given_up",),
    ),
    Mutant(
        "saves although it is behind what is stored",
        "its older cursor becomes everybody's, and the entries after it are trimmed",
        (
            Edit(
                _SNAPSHOTS, "if self.newer or not covers(applied, self.applied):", "if self.newer:"
            ),
        ),
        (f"{_DELIVERY}::test_what_a_frozen_hub_was_about_to_save_undoes_nothing_when_it_thaws",),
    ),
    Mutant(
        "does not write again what Redis has lost",
        "after a rollback of Redis the sessions that say nothing new are gone at the next start",
        (
            Edit(
                _SNAPSHOTS,
                "self.dirty = set(present)",
                "self.dirty = set()",
            ),
        ),
        (f"{_HUB}::test_a_wiped_redis_is_filled_again_from_memory_and_by_the_collector",),
    ),
    Mutant(
        "keeps its place in a stream that began anew",
        "all that comes below the old cursor is never read",
        (Edit(_HOST, '        self.cursor = "0-0"', "        pass"),),
        (f"{_HUB}::test_a_stream_that_began_anew_below_the_cursor_is_read_from_its_start",),
    ),
    Mutant(
        "leaves the numbers of an unreadable entry open",
        "everything behind one bad entry waits for a replay that brings it again",
        (Edit(_CONSUMER, "if error.span is not None:", "if False:"),),
        (f"{_HUB}::test_an_entry_that_cannot_be_read_is_set_aside_and_blocks_nobody",),
    ),
    Mutant(
        "gives a whole batch up for one signal",
        "a signal of a newer collector takes up to a hundred others along",
        (
            Edit(
                _ENVELOPE,
                "        signals = [_decode_one(raw) for raw in items]\n",
                '        raise ValueError("one is wrong") from None\n',
            ),
        ),
        (f"{_BAD}::test_signals_that_make_no_sense_are_set_aside_one_by_one",),
    ),
    Mutant(
        "counts entries of another format as applied",
        "a hub that was not upgraded yet makes their collector delete them",
        (
            Edit(
                _ENVELOPE,
                "raise DecodeError(cause, fields, version=version)",
                'span = msgspec.structs.replace(_decode_header(fields), gap=Gap("undecodable"))\n'
                "        raise DecodeError(cause, fields, span=span, version=version)",
            ),
        ),
        (f"{_BAD}::test_what_came_in_another_format_is_neither_counted_as_applied_nor_asked_for",),
    ),
    Mutant(
        "keeps quiet about gaps",
        "a session whose signals are missing looks whole",
        (Edit(_HOST, "        if batch.gap is not None:", "        if False:"),),
        (f"{_HUB}::test_numbers_that_nobody_has_leave_the_host_incomplete_and_moving",),
    ),
    Mutant(
        "listens to a run that another has followed",
        "a copy of a machine puts its own signals under numbers that are given already",
        (
            Edit(
                _INBOX,
                "return batch.nonce in runs or (batch.first <= seen == runs[latest])",
                "return False",
            ),
        ),
        (_STRANGER,),
    ),
    Mutant(
        "forgets at its end which runs it has heard",
        "its successor listens to whichever copy speaks first",
        (Edit(_SNAPSHOTS, "header.host, header.runs))", "header.host, {}))"),),
        (_STRANGER,),
    ),
    Mutant(
        "writes over the snapshot of a newer version",
        "what only the newer version knows is lost in an upgrade of one hub after the other",
        (
            Edit(
                _SNAPSHOTS,
                "if self.newer or not covers(applied, self.applied):",
                "if not covers(applied, self.applied):",
            ),
            Edit(_SAVE, "if schema > tonumber(ARGV[6]) then", "if false then"),
        ),
        (f"{_STORED}::test_a_newer_versions_snapshot_is_followed_and_never_written_over",),
    ),
    Mutant(
        "writes a large snapshot into its place bit by bit",
        "a crash leaves sessions that are newer than the cursor, which are folded twice",
        (
            Edit(
                _SNAPSHOTS,
                "await _draw_up(redis, draft, whole)",
                "await _draw_up(redis, streams.snapshot(host_id), whole)",
            ),
        ),
        (f"{_STORED}::test_a_big_save_that_dies_at_any_step_changes_nothing",),
    ),
    Mutant(
        "trims a stream that began anew by the old one's cursor",
        "entries go that nobody has read",
        (Edit(_SAVE, "if not reached(last) then", "if false then"),),
        (f"{_STORED}::test_nothing_is_trimmed_by_a_cursor_that_the_stream_has_not_reached",),
    ),
    Mutant(
        "waits for entries to learn that it is behind",
        "a hub behind the trim shows an old state for as long as the host is quiet",
        (Edit(_HOLES, "        if not stuck:\n", "        if True:\n"),),
        (
            f"{_DELIVERY}::"
            "test_a_hub_behind_the_stored_snapshot_catches_up_though_nothing_more_comes",
        ),
    ),
    Mutant(
        "takes a new spool for the whole story",
        "a machine whose state was deleted looks whole",
        (
            Edit(
                _INBOX,
                "emptied = bool(applied) and batch.spool_id not in applied and batch.gap is None",
                "emptied = False",
            ),
        ),
        (
            "tests/unit/hub/test_sequence.py"
            "::test_a_host_that_begins_a_spool_without_a_word_has_lost_the_one_before",
        ),
    ),
    Mutant(
        "lets a machine write under any host's name",
        "whoever has joined can send what another is to have done",
        (Edit(_INGEST, "if asked.host_id != machine.host_id:", "if not asked.host_id:"),),
        ("tests/unit/hub/test_ingest.py::test_what_is_not_to_pass_does_not",),
    ),
    Mutant(
        "writes for a machine into a Redis it does not know",
        "one that was wiped or took over is met with what the machine knew of the one before",
        (Edit(_INGEST, "if asked.server and asked.server != taken.server:", "if False:"),),
        (
            "tests/unit/hub/test_ingest.py"
            "::test_of_another_redis_than_the_machine_knows_nothing_is_done",
        ),
    ),
    Mutant(
        "lets machines write into the set of hosts",
        "one of ill will fills Redis with names of 16 MB, which stay when it is forgotten",
        (
            Edit(
                _RIGHTS,
                '        f"(+hget +hmget %R~{snap})",',
                '        f"(+hget +hmget %R~{snap})",\n        f"(+sadd %W~{streams.HOSTS})",',
            ),
        ),
        ("tests/integration/test_join.py::test_a_machines_user_reaches_its_own_keys_alone",),
    ),
    Mutant(
        "lets machines go to every database",
        "what one writes there no hub looks after",
        (
            Edit(
                _RIGHTS,
                '*([f"+select|{db}"] if db else []),',
                '"+select",',
            ),
        ),
        (f"{_ROOM}::test_a_machine_gets_to_the_database_of_its_url_alone",),
    ),
    Mutant(
        "leaves users as an earlier version made them",
        "the rights that were taken away stay with every machine that had joined before",
        (
            Edit(
                _RIGHTS,
                'if single and told.get(b"channels") == mark.encode():',
                "if single:",
            ),
        ),
        (f"{_ROOM}::test_a_user_by_earlier_rules_is_made_anew",),
    ),
    Mutant(
        "reads a heartbeat however long it is",
        "a machine of ill will has every hub read 170 MB a second, and Redis is full of it",
        (Edit(_HEARTBEATS, "    return len(raw) > MOST_BYTES or", "    return"),),
        (f"{_ROOM}::test_of_a_giant_heartbeat_a_hub_reads_no_more_than_shows_its_length",),
    ),
    Mutant(
        "takes a heartbeat that never expires",
        "it stays in Redis for ever, and its machine is late for ever",
        (
            Edit(
                _HEARTBEATS,
                "or ttl == _STAYS or ttl > streams.BEAT_TTL_MS",
                "",
            ),
        ),
        (f"{_ROOM}::test_a_heartbeat_that_stays_makes_nobody_live",),
    ),
    Mutant(
        "gives back the login of a machine that filled Redis",
        "it fills it again at once, and again",
        (Edit(_MACHINES, "if forgotten or paused:", "if forgotten:"),),
        (f"{_ROOM}::test_a_giant_heartbeat_is_deleted_and_its_machine_kept_out_for_a_while",),
    ),
    Mutant(
        "counts a stream by its first parts alone",
        "whoever begins with small entries fills Redis with big ones unseen",
        (
            Edit(
                "hub/adsum_hub/redis_access.py",
                "streams.inbox(host.id), samples=0)",
                "streams.inbox(host.id))",
            ),
        ),
        (
            f"{_ROOM}::test_a_stream_beyond_its_room_is_deleted_and_the_second_time_its_machine_kept_out",
        ),
    ),
    Mutant(
        "lists every session that a machine makes",
        "one of ill will makes 30,000 in eight seconds, and no list can be used any more",
        (
            Edit(
                _HOST,
                "if (before is None or before.past) and self.is_full and not after.past:",
                "if False:",
            ),
        ),
        (
            "tests/unit/hub/test_roster_full.py::test_sessions_beyond_the_most_are_left_out_and_told",
        ),
    ),
    Mutant(
        "believes a signal from a thousand years ahead",
        "its state stands for ever, whatever comes after it",
        (
            Edit(
                _INBOX,
                "signal, at=min(signal.at, latest), seen=min(signal.seen, latest)",
                "signal, at=signal.at, seen=signal.seen",
            ),
        ),
        (
            "tests/unit/hub/test_clock_ahead.py"
            "::test_a_signal_from_a_thousand_years_ahead_does_not_stand_for_ever",
        ),
    ),
    Mutant(
        "takes a hub with too much to do for a Redis that is away",
        "strangers who flood it keep a revoked token good for a quarter of an hour",
        (
            Edit(
                _GATE,
                "        except ExhaustedError as error:",
                "        except ZeroDivisionError as error:",
            ),
        ),
        (f"{_AUTH}::test_where_the_hub_itself_has_too_much_to_do_nothing_remembered_is_believed",),
    ),
    Mutant(
        "lets whoever is remembered administer while Redis is away",
        "an admin who was shut out makes tokens of their own",
        (Edit(_GATE, "        if not only_looks:", "        if False:"),),
        (f"{_AUTH}::test_without_redis_they_look_and_do_no_more",),
    ),
    Mutant(
        "lets strangers' credentials take the turns of those who are known",
        "whoever is signed in waits for a flood of tokens that nobody has given out",
        (
            Edit(
                _GATE,
                "self._known if is_known else self._unknown",
                "self._unknown",
            ),
        ),
        (f"{_AUTH}::test_strangers_take_no_turn_of_those_who_are_known",),
    ),
    Mutant(
        "counts time in which its own loop was held up as Redis's silence",
        "a hub that has too much to do takes itself for cut off",
        (
            Edit(
                _GATE,
                "await answered_within(looking, ANSWER_S)",
                "await asyncio.wait_for(looking, ANSWER_S)",
            ),
        ),
        (f"{_AUTH}::test_a_loop_that_was_held_up_is_no_redis_that_is_away",),
    ),
    Mutant(
        "counts what an address tries beyond its own limit towards that of all",
        "whoever has one address locks everybody out",
        (
            Edit(
                _LIMIT,
                "return wait or await self._counted(ALL, MOST_OF_ALL)",
                "return await self._counted(ALL, MOST_OF_ALL) or wait",
            ),
        ),
        (
            "tests/integration/test_rate_limit.py"
            "::test_what_an_address_tries_beyond_its_limit_locks_out_no_other",
        ),
    ),
    Mutant(
        "believes any user of its machine about who asks",
        "logins are tried under a new address each time, and no limit holds",
        (
            Edit(
                _SERVING,
                'if (public_url or "").startswith("https://") else ""',
                "if True else None",
            ),
        ),
        ("tests/unit/hub/test_app.py::test_a_proxy_is_believed_where_one_is_configured",),
    ),
    Mutant(
        "forgets the instants that rules have asked for",
        "no state changes by itself: a silent session is never stuck, a failed tool no error",
        (Edit(_READING, "            self.until = at\n", "            pass\n"),),
        (f"{_UNTIL}::test_nothing_changes_before_until",),
    ),
    Mutant(
        "remembers the latest instant that a rule has asked for",
        "the page shows what was until the last of the time limits has passed",
        (Edit(_READING, "or at < self.until", "or at > self.until"),),
        (f"{_UNTIL}::test_nothing_changes_before_until",),
    ),
    Mutant(
        "takes over the calls of the verdict before",
        "a call that begins or ends changes nothing",
        (
            Edit(
                _GROUND,
                "if before.tools is not facts.tools or before.done is not facts.done:",
                "if not calls.by_id:",
            ),
        ),
        (f"{_VIEWS}::test_what_is_taken_over_says_the_same_as_what_is_found_anew",),
    ),
    Mutant(
        "calls silence what is an error",
        "after two minutes nobody is told why a session waits, and it sinks in the list",
        (Edit(_RULES, 'return found if found.state == "error" else still', "return still"),),
        (
            "tests/unit/hub/verdict/test_silence.py"
            "::test_an_error_outlives_silence_with_its_cause_its_urgency_and_its_mark",
        ),
    ),
    Mutant(
        "lists history that wakes up beyond the most",
        "a machine of ill will lists any number of sessions by way of its history",
        (Edit(_HOST, "if (before is None or before.past) and", "if before is None and"),),
        (f"{_FULL}::test_a_history_that_wakes_up_takes_places_as_well",),
    ),
    Mutant(
        "says once only that sessions are left out",
        "after ten minutes nobody knows that a machine's list is not all of it",
        (
            Edit(
                _HOST,
                "            self.turned_away += 1\n            if len(self.left_out)",
                "            if len(self.left_out)",
            ),
        ),
        (f"{_FULL}::test_it_stays_said_while_sessions_are_left_out",),
    ),
    Mutant(
        "asks for a known machine behind strangers",
        "who floods a hub with wrong credentials keeps machines from sending through it",
        (Edit(_JOINING, "if self.watch.knows(host_id, digest):", "if False:"),),
        (f"{_JOININGS}::test_a_known_machine_waits_behind_no_stranger",),
    ),
    Mutant(
        "takes a look at a still process for a sign of life",
        "a hang is never called stuck on a machine that looks for it",
        (
            Edit(
                "hub/adsum_hub/fold/fold.py",
                " if kind is not s.ProcessStill else None",
                "",
            ),
        ),
        (
            "tests/unit/hub/verdict/test_silence.py"
            "::test_a_look_at_a_process_is_no_sign_of_life_and_may_come_late",
        ),
    ),
    Mutant(
        "believes an old look at a process",
        "a model that has just begun to think is called stuck",
        (Edit(_RULES, "    if looked < since:\n", "    if not looked:\n"),),
        (
            "tests/unit/hub/verdict/test_silence.py"
            "::test_a_silence_at_which_nobody_has_looked_lasts_as_long_as_the_cli_bears_it",
        ),
    ),
    Mutant(
        "drops an alarm that was moved to later",
        "a session that fell silent after a signal is never called stuck",
        (
            Edit(
                "hub/adsum_hub/roster.py",
                "                if due is not None:\n",
                "                if False:\n",
            ),
        ),
        ("tests/unit/hub/test_roster_alarms.py::test_an_alarm_set_to_later_does_not_ring_sooner",),
    ),
)
