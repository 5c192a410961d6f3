"""The bench as its users run it: any folder of traces, whole or broken, scored or not."""

from __future__ import annotations

import json
import shutil
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from bench import accuracy
from bench.traces import load

TRACES = Path(__file__).parents[2] / "data" / "traces"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("i_perm_deny", "i_kill9"):
        shutil.copytree(TRACES / name, tmp_path / "traces" / name)
    return tmp_path / "traces"


class Ran:
    def __init__(self, status: object, out: str, err: str) -> None:
        self.out, self.err = out, err
        self.failure = status if isinstance(status, str) else None


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    def run(*words: object) -> Ran:
        monkeypatch.setattr(sys, "argv", ["bench.accuracy", *map(str, words)])
        status: object = None
        try:
            accuracy.main()
        except SystemExit as stopped:
            status = stopped.code
        return Ran(status, *capsys.readouterr())

    return run


def append(path: Path, *lines: str) -> None:
    path.write_text(path.read_text() + "".join(f"{line}\n" for line in lines))


def test_every_set_of_witnesses_has_its_line_and_its_ceiling(bench, folder: Path) -> None:
    lines = bench(folder).out.splitlines()

    assert lines[0].split("  ")[0] == "witnesses"
    assert lines[0].count("at most") == 2
    assert [line.split("  ")[0] for line in lines[1:]] == list(accuracy.WAYS)


def test_one_set_of_witnesses_can_be_asked_for(bench, folder: Path) -> None:
    _, line = bench(folder, "--witness", "hooks,process").out.splitlines()

    assert line.startswith("hooks + process")


def test_an_unknown_witness_is_named_and_the_known_ones_are_told(bench, folder: Path) -> None:
    ran = bench(folder, "--witness", "hooks,rumour")

    assert ran.failure is not None
    assert "rumour; known are hooks, transcript" in ran.failure


def test_json_has_the_same_figures(bench, folder: Path) -> None:
    found = json.loads(bench(folder, "--json").out)

    assert list(found) == list(accuracy.WAYS)
    assert found["all"]["settled"] == found["all"]["segments"] > 0
    assert found["hooks"]["settled_ceiling_percent"] < 100


def test_each_miss_is_explained(bench, folder: Path) -> None:
    out = bench(folder, "--witness", "hooks", "-v").out

    assert "i_perm_deny e6e9d4a2 3322-5803" in out
    assert "no hook fires on Esc or No" in out
    assert "TRUE MISS" not in out


def test_a_hook_that_is_left_out_is_not_heard(bench, folder: Path) -> None:
    ways = ("--witness", "hooks", "--json")
    with_it = json.loads(bench(folder, *ways).out)["hooks"]
    without = json.loads(bench(folder, *ways, "--without", "PermissionRequest").out)["hooks"]

    assert without["missed_needs_you_s"] > with_it["missed_needs_you_s"]


def test_the_timeline_has_one_line_a_change_in_the_defined_order(
    bench, folder: Path, tmp_path: Path
) -> None:
    bench(folder, "--timeline", tmp_path / "out.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]

    keys = ["scenario", "session_id", "t_ms", "group", "state", "source", "confidence"]
    assert all(list(row) == keys for row in rows)
    assert {row["scenario"] for row in rows} == {"i_perm_deny", "i_kill9"}
    assert [row["state"] for row in rows if row["scenario"] == "i_kill9"][-1] == "session_ended"
    states = [(row["session_id"], row["group"], row["state"]) for row in rows]
    assert all(one != two for one, two in pairwise(states))


def test_a_trace_without_labels_gives_a_timeline_and_no_score(
    bench, folder: Path, tmp_path: Path
) -> None:
    for labels in folder.glob("*/labels.jsonl"):
        labels.unlink()
    ran = bench(folder, "--timeline", tmp_path / "out.jsonl")

    assert ran.failure is None
    assert "no labels" in ran.err
    assert (tmp_path / "out.jsonl").read_text().count("i_perm_deny") > 5


def test_one_trace_without_labels_leaves_the_others_score_alone(bench, folder: Path) -> None:
    (folder / "i_kill9" / "labels.jsonl").unlink()
    ran = bench(folder, "--json")

    assert json.loads(ran.out)["all"]["segments"] > 0
    assert "1 scenarios without labels" in ran.err


def test_several_folders_stand_in_one_table_with_whose_word_their_labels_are(
    bench, folder: Path, tmp_path: Path
) -> None:
    screen, quill = tmp_path / "screen", tmp_path / "quill"
    shutil.copytree(folder, screen)
    for labels in screen.glob("*/labels.jsonl"):
        rows = [json.loads(line) for line in labels.read_text().splitlines()]
        labels.write_text("".join(json.dumps({**row, "source": "screen"}) + "\n" for row in rows))
    shutil.copytree(folder / "i_kill9", quill / "i_kill9")
    meta = quill / "i_kill9" / "meta.json"
    meta.write_text(json.dumps({**json.loads(meta.read_text()), "agent": "quill"}))
    ran = bench(folder, screen, quill)
    table, causes = ran.out.split("\n\n")

    assert table.splitlines()[0].split()[:3] == ["set", "labels", "witnesses"]
    assert [line.split()[:2] for line in table.splitlines()[1:]] == [
        *[["traces", "registry"]] * len(accuracy.WAYS),
        *[["screen", "screen"]] * len(accuracy.WAYS),
    ]
    assert "quill: not scored: 1 of quill, for which bench.replay has no adapter" in ran.out
    assert "needs_permission (registry waiting (permission prompt)), shown as acting" in causes


@pytest.mark.parametrize(
    ("mode", "source"),
    [("shared server", "server"), ("solo", "screen"), ("headless", "process"), ("", "registry")],
)
def test_labels_that_do_not_name_whose_word_they_are_are_of_whom_their_agent_was_run_by(
    folder: Path, mode: str, source: str
) -> None:
    meta = folder / "i_kill9" / "meta.json"
    meta.write_text(json.dumps({**json.loads(meta.read_text()), "mode": mode}))

    assert {label.source for label in load(meta.parent).labels} == {source}


def test_several_folders_as_json_name_each_ones_labels(bench, folder: Path) -> None:
    one = json.loads(bench(folder, "--json").out)
    both = json.loads(bench(folder, folder / "i_kill9", "--json").out)

    assert both[str(folder)] == {"labels": "registry", "not_scored": [], "witnesses": one}
    low, high = one["all"]["settled_interval_percent"]
    assert low < one["all"]["settled_percent"] == high == 100


def test_a_floor_is_of_one_folder(bench, folder: Path, tmp_path: Path) -> None:
    failure = bench(folder, folder, "--floor", tmp_path / "score.json").failure

    assert "one folder" in failure


def test_an_empty_folder_says_what_belongs_there(bench, tmp_path: Path) -> None:
    ran = bench(tmp_path)

    assert ran.failure is not None
    assert str(tmp_path) in ran.failure
    assert "meta.json and events.jsonl" in ran.failure


def test_a_folder_that_is_none_is_named(bench, tmp_path: Path) -> None:
    assert "is no folder" in bench(tmp_path / "nowhere").failure


def test_one_trace_can_be_given_by_itself(bench, folder: Path) -> None:
    assert json.loads(bench(folder / "i_perm_deny", "--json").out)["all"]["segments"] > 0


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("events.jsonl", '{"t_ms": 12, "kind": "hook", "event": "St'),
        ("events.jsonl", '{"kind": "hook"}'),
        ("events.jsonl", '{"t_ms": "soon", "kind": "hook"}'),
        ("events.jsonl", "[]"),
        ("labels.jsonl", '{"session_id": "x"}'),
    ],
)
def test_a_broken_line_is_named_left_out_and_counted(
    bench, folder: Path, file: str, line: str
) -> None:
    whole = bench(folder, "--json").out
    number = (folder / "i_kill9" / file).read_text().count("\n") + 1
    append(folder / "i_kill9" / file, line)
    ran = bench(folder, "--json")

    assert f"i_kill9/{file}:{number}: " in ran.err
    assert "1 faults left out" in ran.err
    assert ran.out == whole


@pytest.mark.parametrize(
    "event",
    [
        {"kind": "hook", "event": "Stop", "body": {}},
        {"kind": "registry", "pid": 1, "content": {}},
        {"kind": "statusline", "body": {}},
        {
            "kind": "line",
            "file": "projects/p/2b13bc11-4034-412a-8c7f-fbf57114f76b.jsonl",
            "line": 7,
        },
    ],
)
def test_what_an_adapter_refuses_is_named_and_counted(
    bench, folder: Path, event: dict[str, object]
) -> None:
    whole = bench(folder, "--json").out
    append(folder / "i_kill9" / "events.jsonl", json.dumps({"t_ms": 2_000, **event}))
    ran = bench(folder, "--json")

    assert "left out: i_kill9 2000 ms" in ran.err
    assert "faults left out" in ran.err
    assert ran.out == whole


@pytest.mark.parametrize(
    "event",
    [
        {"kind": "telepathy", "said": 1},
        {
            "kind": "hook",
            "event": "Mystery",
            "body": {"session_id": "x", "hook_event_name": "Mystery"},
        },
        {"kind": "line", "file": "history.jsonl", "line": {"type": "user"}},
    ],
)
def test_what_nobody_has_heard_of_is_no_fault(
    bench, folder: Path, event: dict[str, object]
) -> None:
    append(folder / "i_kill9" / "events.jsonl", json.dumps({"t_ms": 2_000, **event}))
    ran = bench(folder)

    assert ran.failure is None
    assert ran.err == ""


def test_a_broken_meta_is_named(bench, folder: Path) -> None:
    (folder / "i_kill9" / "meta.json").write_text("{")
    ran = bench(folder)

    assert ran.failure is None
    assert "i_kill9/meta.json" in ran.err


# -- the committed score ---------------------------------------------------------------------------


@pytest.fixture
def committed(bench, folder: Path, tmp_path: Path) -> Path:
    path = tmp_path / "score.json"
    bench(folder, "--floor", path, "--accept")
    return path


def change(path: Path, way: str, figure: str, by: float) -> None:
    held = json.loads(path.read_text())
    held[way][figure] += by
    path.write_text(json.dumps(held))


def test_the_same_score_passes(bench, folder: Path, committed: Path) -> None:
    assert bench(folder, "--floor", committed).failure is None


@pytest.mark.parametrize(
    ("figure", "by"),
    [
        ("settled", 1),
        ("ended", 1),
        ("time_weighted_percent", 0.5),
        ("false_needs_you_s", -1),
        ("missed_needs_you_s", -1),
        ("flickers", -1),
        ("delay_p50_ms", -1),
        ("delay_p99_ms", -1),
    ],
)
@pytest.mark.parametrize("way", ["all", "transcript"])
def test_a_figure_that_has_fallen_fails_and_says_which_and_what_to_do(
    bench, folder: Path, committed: Path, way: str, figure: str, by: float
) -> None:
    change(committed, way, figure, by)
    failure = bench(folder, "--floor", committed).failure

    assert failure is not None
    assert f"{way}: {figure} from " in failure
    assert "--accept" in failure


def test_a_better_score_passes_and_says_so(bench, folder: Path, committed: Path) -> None:
    change(committed, "hooks", "settled", -1)
    ran = bench(folder, "--floor", committed)

    assert ran.failure is None
    assert "better than committed" in ran.err


def test_other_traces_cannot_be_compared(bench, folder: Path, committed: Path) -> None:
    shutil.rmtree(folder / "i_perm_deny")

    assert "segments from" in bench(folder, "--floor", committed).failure


def test_a_set_of_witnesses_that_is_no_longer_measured_fails(
    bench, folder: Path, committed: Path
) -> None:
    failure = bench(folder, "--floor", committed, "--witness", "hooks").failure

    assert "transcript: only committed" in failure


def test_no_committed_score_is_a_failure_with_a_cause(bench, folder: Path, tmp_path: Path) -> None:
    assert "no committed score" in bench(folder, "--floor", tmp_path / "none.json").failure
