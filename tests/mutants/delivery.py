"""Mutants of delivery: each accepted signal counts once, whatever crashes, is lost or comes twice."""

from __future__ import annotations

from tests.mutants.runner import Edit, Mutant

_CONSUMER = "hub/adsum_hub/consumer/consumer.py"
_HEARTBEATS = "hub/adsum_hub/consumer/heartbeats.py"
_HOST = "hub/adsum_hub/host.py"
_INBOX = "hub/adsum_hub/inbox.py"
_SAVE = "hub/adsum_hub/save.lua"
_SNAPSHOTS = "hub/adsum_hub/snapshots.py"
_ENVELOPE = "shared/adsum_shared/envelope.py"
_KEYS = "shared/adsum_shared/host_keys.py"
_PUBLISHER = "collector/adsum_collector/delivery/publisher.py"
_FILE = "collector/adsum_collector/spool/spool_file.py"
_DIRECTORY = "collector/adsum_collector/spool/spool_directory.py"
_CURSORS = "collector/adsum_collector/transcripts/cursors.py"

_HUB = "tests/integration/test_hub.py"
_BY_HUB = "tests/integration/test_delivery_hub.py"
_BY_COLLECTOR = "tests/integration/test_delivery_collector.py"
_SEQUENCE = "tests/unit/hub/test_sequence.py"
_SPOOL = "tests/unit/collector/test_spool_directory.py"
_TAILING = "tests/unit/collector/test_tailer_files.py"

MUTANTS = (
    Mutant(
        "A hub does not save over a newer snapshot.",
        (Edit(_SAVE, "", "found ~= tonumber(ARGV[1])", "false"),),
        (f"{_BY_HUB}::test_a_save_over_a_newer_snapshot_changes_nothing_and_trims_nothing",),
    ),
    Mutant(
        "A save trims the stream.",
        (Edit(_SAVE, "", "redis.call('XTRIM', KEYS[2], 'MINID', ARGV[2])", ""),),
        (f"{_HUB}::test_a_killed_hub_goes_on_from_its_snapshot_and_the_stream_is_trimmed",),
    ),
    Mutant(
        "A large snapshot replaces the old one in one step.",
        (
            Edit(
                _SNAPSHOTS,
                "save_snapshot",
                "_draw_up(...)",
                "_draw_up(redis, streams.snapshot(host_id), whole)",
            ),
        ),
        (
            "tests/integration/test_hub_snapshots.py"
            "::test_a_big_save_that_dies_at_any_step_changes_nothing",
        ),
    ),
    Mutant(
        "A hub applies each number once.",
        (
            Edit(_INBOX, "admit", "batch.last <= seen", "False"),
            Edit(_INBOX, "admit", "batch.signals[...:]", "batch.signals"),
        ),
        (
            f"{_SEQUENCE}::test_what_is_applied_already_is_dropped",
            f"{_SEQUENCE}::test_of_an_overlapping_batch_only_the_new_part_is_applied",
        ),
    ),
    Mutant(
        "A hub counts the numbers of each spool separately.",
        (Edit(_INBOX, "admit", "applied.get(...)", "max(applied.values(), default=0)"),),
        (f"{_SEQUENCE}::test_a_new_spool_starts_at_one",),
    ),
    Mutant(
        "A hub asks for missing numbers.",
        (Edit(_INBOX, "admit", "batch.first > ...", "False"),),
        (f"{_SEQUENCE}::test_a_batch_after_a_hole_names_the_first_missing_number",),
    ),
    Mutant(
        "A hub asks a quiet host for the last numbers that Redis lost.",
        (Edit(_HEARTBEATS, "Heartbeats._look_for_lost_tail", "applied >= beat.sent", "True"),),
        (f"{_HUB}::test_a_lost_tail_of_a_quiet_host_is_asked_for",),
    ),
    Mutant(
        "A hub gives no version of a snapshot twice after Redis lost some.",
        (Edit(_SNAPSHOTS, "Saved.keep", "self.highest + unseen", "self.highest"),),
        (
            "tests/integration/test_hub_setbacks.py"
            "::test_a_frozen_hub_writes_no_old_state_over_a_newer_one_though_redis_lost_its_data",
        ),
    ),
    Mutant(
        "A hub writes again what Redis lost.",
        (Edit(_SNAPSHOTS, "Saved.overtaken", "set(present)", "set()"),),
        (f"{_HUB}::test_a_wiped_redis_is_filled_again_from_memory_and_by_the_collector",),
    ),
    Mutant(
        "An unreadable entry does not block its host.",
        (Edit(_CONSUMER, "Consumer._take", "error.span is not None", "False"),),
        (f"{_HUB}::test_an_entry_that_cannot_be_read_is_set_aside_and_blocks_nobody",),
    ),
    Mutant(
        "A hub does not count entries of a newer format as applied.",
        (
            Edit(
                _ENVELOPE,
                "decode_batch",
                "raise DecodeError(cause, ..., version=version)",
                "raise DecodeError(cause, fields, version=version, span=msgspec.structs.replace("
                "_decode_header(fields), gap=Gap('undecodable')))",
            ),
        ),
        (
            "tests/integration/test_hub_bad_entries.py"
            "::test_what_came_in_another_format_is_neither_counted_as_applied_nor_asked_for",
        ),
    ),
    Mutant(
        "A host with lost numbers shows as incomplete.",
        (Edit(_HOST, "Host.apply", "batch.gap is not None", "False"),),
        (f"{_HUB}::test_numbers_that_nobody_has_leave_the_host_incomplete_and_moving",),
    ),
    Mutant(
        "A hub ignores a run that a later run has followed.",
        (Edit(_INBOX, "is_stranger", "batch.nonce in runs or ...", "False"),),
        (f"{_BY_HUB}::test_an_older_run_that_comes_after_a_later_one_is_left_out_and_told",),
    ),
    Mutant(
        "A run waits for its numbers that a hub has dropped as another run's.",
        (Edit(_INBOX, "is_stranger", 'batch.nonce_before in ("", latest)', "True"),),
        (
            f"{_SEQUENCE}::test_a_run_that_follows_another_than_the_latest_is_a_stranger",
            "tests/unit/collector/test_stream_position.py"
            "::test_a_disk_that_is_set_back_delivers_in_order_though_redis_lost_its_data",
        ),
    ),
    Mutant(
        "A signal from far ahead does not outlast later ones.",
        (Edit(_HOST, "Host.apply", "dated_back(...)", "told"),),
        (
            "tests/unit/hub/test_clock_ahead.py"
            "::test_a_signal_from_a_thousand_years_ahead_does_not_stand_for_ever",
        ),
    ),
    Mutant(
        "A hook is answered after its commit.",
        (
            Edit(
                "collector/adsum_collector/listening/receiver.py",
                "Receiver._take",
                "await door.intake.accept(...)",
                "(asyncio.ensure_future(door.intake.accept(signals)), 0)[1]",
            ),
        ),
        (f"{_BY_COLLECTOR}::test_a_hook_is_not_answered_while_its_commit_is_under_way",),
    ),
    Mutant(
        "A commit is synced to the disk.",
        (Edit(_FILE, "connect", "'PRAGMA synchronous = FULL'", "'PRAGMA synchronous = OFF'"),),
        (f"{_SPOOL}::test_every_commit_is_synced_to_the_disk",),
    ),
    Mutant(
        "The lines of a transcript and its cursor are committed together.",
        (
            Edit(
                "collector/adsum_collector/transcripts/tailer.py",
                "Tailer._report",
                "await self._intake.accept(...)",
                "(await self._intake.accept([], state={key_of(file.path): encode_cursor(cursor)}),"
                " await self._intake.accept(signals))",
            ),
        ),
        (
            f"{_BY_COLLECTOR}"
            "::test_a_line_is_told_once_after_whichever_commit_the_collector_was_killed",
        ),
    ),
    Mutant(
        "A line is read when it is complete.",
        (
            Edit(
                "collector/adsum_collector/line_reader.py",
                "LineReader.fill",
                "buffer.rfind(...) + 1",
                "kept + got",
            ),
            Edit(_CURSORS, "_next_lines", "parts.pop()", "b''"),
        ),
        (f"{_TAILING}::test_half_a_line_waits_for_its_newline",),
    ),
    Mutant(
        "A rewritten transcript is read from its start.",
        (
            Edit(_CURSORS, "why_lost", "cursor.head != ...", "False"),
            Edit(_CURSORS, "why_lost", "cursor.before == ...", "True"),
        ),
        (f"{_TAILING}::test_a_rewritten_file_is_begun_anew",),
    ),
    Mutant(
        "A message that its sender repeats counts once.",
        (Edit(_FILE, "SpoolFile.insert", "messages[...] = seq", "pass"),),
        (f"{_SPOOL}::test_a_message_that_comes_twice_gets_its_first_number",),
    ),
    Mutant(
        "A signal stays in the spool until a hub has stored it.",
        (Edit(_PUBLISHER, "StreamPosition.look", "min(...)", "self.sent"),),
        (f"{_BY_COLLECTOR}::test_nothing_leaves_the_spool_before_a_hub_has_stored_it",),
    ),
    Mutant(
        "What the spool drops at its cap leaves a gap.",
        (Edit(_DIRECTORY, "SpoolDirectory._rotate", "file.last > acked", "False"),),
        (f"{_SPOOL}::test_beyond_the_cap_the_oldest_goes_and_leaves_a_gap",),
    ),
    Mutant(
        "After damage no number is used again.",
        (Edit(_DIRECTORY, "SpoolDirectory._salvage", "secrets.token_hex(...)", "spool_id"),),
        (f"{_SPOOL}::test_a_damaged_newest_file_is_quarantined_and_a_new_spool_begins",),
    ),
    Mutant(
        "A new spool keeps what no hub has.",
        (Edit(_DIRECTORY, "SpoolDirectory._begin_anew", "enumerate(...)", "()"),),
        (f"{_SPOOL}::test_a_new_beginning_keeps_what_no_hub_has",),
    ),
    Mutant(
        "A batch whose reply is lost is in the stream once.",
        (
            Edit(_KEYS, "_adding", "entry.id", "'*'"),
            # By default the client repeats a command whose reply is lost.
            Edit("shared/adsum_shared/connect.py", "_options", "'retry'", "'retry_on_timeout'"),
        ),
        (f"{_BY_COLLECTOR}::test_a_batch_whose_reply_is_lost_lies_in_the_stream_once",),
    ),
    Mutant(
        "A shared login takes only the batch that it wrote last for its own.",
        (Edit(_KEYS, "carry_out", "last.id == found['head'].id", "True"),),
        (
            "tests/unit/shared/test_host_keys.py"
            "::test_a_shared_login_reads_where_a_stream_ends_and_no_entry",
        ),
    ),
    Mutant(
        "Two collectors do not share one state directory.",
        (Edit("collector/adsum_collector/state_dir.py", "hold_lock", "fcntl.flock(...)", "None"),),
        (
            "tests/integration/test_collector_process.py"
            "::test_a_second_collector_names_the_first_and_the_way_out",
        ),
    ),
    Mutant(
        "A copied or restored disk begins a new spool.",
        (Edit(_PUBLISHER, "StreamPosition._why_to_leave", "self._runs.why_to_leave(...)", "None"),),
        (
            "tests/unit/collector/test_stream_position.py"
            "::test_two_lives_that_take_the_same_number_both_deliver",
        ),
    ),
)
