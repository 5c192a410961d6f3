"""What a rule of the owner's may decide, and all that no rule decides."""

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from adsum_collector.agents.base import PastCall, PastDecision
from adsum_collector.agents.claude_code.acting import past_in
from adsum_collector.control.policy import (
    LivePolicy,
    Matter,
    Policy,
    PolicyRule,
    Ruling,
    Tag,
    policy_of,
    read_policy,
)
from adsum_shared.settings import ConfigError
from tests.control import FEATURES, asked_by, permission

FILE = Path("/etc/config.toml")
NOON = 12 * 60


def same(path: str) -> str:
    return os.path.normpath(path)


def judged(rules: Any, given: Any, tool: str = "Bash", minute: int = NOON, **more: Any) -> Ruling:
    rules = rules if isinstance(rules, list) else [rules]
    table = {"rule": [{"name": f"r{n}", "dry_run": False, **r} for n, r in enumerate(rules)]}
    table |= {name: more.pop(name) for name in ("tag", "two_persons") if name in more}
    asked = asked_by(permission(tool, given, **more))
    return policy_of(FILE, table).judge(Matter(asked, minute, same))


def allows(rules: Any, given: Any, tool: str = "Bash", **more: Any) -> bool:
    rule = judged(rules, given, tool, **more).rule
    return rule is not None and rule.decision == "allow"


MAKE = {"decision": "allow", "tool": "shell", "pattern": "make *"}


@pytest.mark.parametrize(
    ("pattern", "command", "allowed"),
    [
        ("make *", "make test", True),
        ("make *", "make", True),
        ("make *", "make 'a b' -j2", True),
        ("make test", "make test", True),
        ("make test", "make  test", False),
        ("make test", "make test2", False),
        ("make test*", "make test2", True),
        ("make test*", "make test2 install", False),
        ("make *", "cmake test", False),
        ("make *", "FOO=1 make test", False),
        ("git log *", "git push", False),
        ("cd x && make", "cd x && make", True),
        ("cat docs/*", "cat docs/start.md", True),
        ("cat docs/*", "cat docs/../../../etc/shadow", False),
        ("cat docs/*", "cat docs/..", False),
        ("make *", "make -C../x", False),
        ("make *", "make x:../y", False),
        ("git log *", "git log main..topic", True),
        ("cat ../*", "cat ../a", False),
        ("cat ../a", "cat ../a", True),
    ],
)
def test_a_pattern_is_of_the_whole_command(pattern: str, command: str, allowed: bool) -> None:
    assert allows({**MAKE, "pattern": pattern}, {"command": command}) is allowed


@pytest.mark.parametrize(
    "tail",
    [
        *("; rm -rf ~", "&& rm x", "|| rm x", "| sh", "& rm x", "\nrm x", "\rrm x", "$(rm x)"),
        *("`rm x`", "> /etc/passwd", "< x", ">> x", "$HOME", "${x}", "\\\nrm x", "~/x", "*.c"),
        *("a?", "[ab]", "{a,b}", "!!", "# x", "'a", '"a', '"$(rm x)"', "'; rm x'", "é", "\t", "\0"),
        *("<(rm x)", "(rm x)", "\u2028rm", "^a^b"),
    ],
)
def test_a_command_that_says_more_than_words_is_no_rules(tail: str) -> None:
    assert not allows(MAKE, {"command": f"make {tail}"})
    assert not allows({**MAKE, "tool": "Bash"}, {"command": f"make {tail}"})


@pytest.mark.parametrize(
    ("given", "tool"),
    [
        ({"command": "make test", "dangerouslyDisableSandbox": True}, "Bash"),
        ({"command": ["make", "test"]}, "Bash"),
        ({}, "Bash"),
        ({"command": "make test"}, "PowerShell"),
        ({"command": "make test " + "x" * 70_000}, "Bash"),
    ],
)
def test_an_input_that_says_more_than_its_command_is_no_rules(given: Any, tool: str) -> None:
    assert judged(MAKE, given, tool).rule is None


EDIT = {"decision": "allow", "tool": "edit", "directory": "/srv"}


@pytest.mark.parametrize(
    ("rule", "path", "cwd", "allowed"),
    [
        (EDIT, "/srv/a/b.py", "/srv/a", True),
        (EDIT, "a.py", "/srv", True),
        (EDIT, "/etc/passwd", "/srv", False),
        (EDIT, "/srv/a.py", "/elsewhere", False),
        (EDIT, "/srv/../etc/passwd", "/srv", False),
        (EDIT, "/srvs/a.py", "/srv", False),
        (EDIT, "/srv/.git/hooks/pre-commit", "/srv", False),
        (EDIT, "/srv/.claude/settings.json", "/srv", False),
        ({**EDIT, "directory": "/srv/.github"}, "/srv/.github/x.yml", "/srv/.github", True),
        ({**EDIT, "pattern": "/srv/docs/*"}, "/srv/docs/a.md", "/srv", True),
        ({**EDIT, "pattern": "/srv/docs/*"}, "/srv/src/a.md", "/srv", False),
        ({**EDIT, "tool": "write"}, "/srv/a.py", "/srv", False),
    ],
)
def test_a_file_lies_where_the_rule_says(rule: Any, path: str, cwd: str, allowed: bool) -> None:
    given = {"file_path": path, "old_string": "a", "new_string": "b"}

    assert allows(rule, given, "Edit", cwd=cwd) is allowed


def test_a_link_out_of_the_directory_is_no_rules(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a").symlink_to(tmp_path / "secret")
    rule = PolicyRule("r", "allow", tool="write", directory=str(tmp_path / "work"), dry_run=False)
    body = permission("Write", {"file_path": "a", "content": ""}, cwd=str(tmp_path / "work"))

    assert Policy((rule,)).judge(Matter(asked_by(body), NOON)).rule is None
    (tmp_path / "work" / "a").unlink()
    assert Policy((rule,)).judge(Matter(asked_by(body), NOON)).rule == rule


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("https://docs.python.org/3/", True),
        ("http://docs.python.org/3/", False),
        ("https://evil.org/x.python.org/3", False),
        ("https://docs.python.org@evil.org/3", False),
        ("https://docs.python.org\\@evil.org/3", False),
        ("https://docs.python.org.evil.org/3", False),
        ("https://docs.python.org/3/../../login", False),
        ("https://docs.python.org/3/%2E%2e/login", False),
    ],
)
def test_an_address_is_held_part_by_part(url: str, allowed: bool) -> None:
    rule = {"decision": "allow", "tool": "fetch", "pattern": "https://*.python.org/*"}

    assert allows(rule, {"url": url, "prompt": "?"}, "WebFetch") is allowed


@pytest.mark.parametrize("url", ["file:///etc/passwd", "docs", "https:///x"])
@pytest.mark.parametrize(
    "pattern", ["https://*.python.org/*", "file:///etc/*", "docs", "https:///x"]
)
def test_an_address_without_a_host_is_no_rules(url: str, pattern: str) -> None:
    rule = {"decision": "allow", "tool": "fetch", "pattern": pattern}

    assert not allows(rule, {"url": url, "prompt": "?"}, "WebFetch")
    after = {**rule, "pattern": "https://docs.python.org/*"}
    assert allows([rule, after], {"url": "https://docs.python.org/3", "prompt": "?"}, "WebFetch")


def test_what_is_no_path_is_no_rules_and_lies_nowhere() -> None:
    tag = Tag("shop", ("/srv",), suspend_after_min=1)
    deny = PolicyRule("d", "deny", "edit", "/x/*", dry_run=False)
    allow = PolicyRule("a", "allow", "edit", directory="/srv", dry_run=False)
    asked = asked_by(
        permission("Edit", {"file_path": "/srv/a\0", "old_string": "", "new_string": ""})
    )
    policy = Policy((deny, allow), (tag,))
    make = PolicyRule("m", "allow", "shell", "make *", dry_run=False)
    lost = asked_by(permission(given={"command": "make x"}, cwd="/srv/\0"))

    assert policy.judge(Matter(asked, NOON)) == Ruling()
    assert Policy((make,)).judge(Matter(lost, NOON)) == Ruling()
    assert policy.tags_at("/srv/\0") == set()
    assert policy.rest_ms("/srv/\0") is None


def test_where_nobody_knows_where_it_is_two_persons_decide() -> None:
    tag = Tag("shop", ("/srv",))

    assert Policy(tags=(tag,), two_persons=("shop",)).persons("/else/\0") == 2
    assert Policy(tags=(tag,)).persons("/else/\0") == 1


@pytest.mark.parametrize(
    ("between", "minute", "fits"),
    [
        ("08:00-18:00", 8 * 60, True),
        ("08:00-18:00", 18 * 60, False),
        ("22:00-06:00", 23 * 60, True),
        ("22:00-06:00", 5 * 60 + 59, True),
        ("22:00-06:00", 6 * 60, False),
        ("22:00-06:00", 21 * 60, False),
    ],
)
def test_a_rule_keeps_its_hours(between: str, minute: int, fits: bool) -> None:
    given = {"command": "make test"}

    assert allows({**MAKE, "between": between}, given, minute=minute) is fits


def test_a_tag_is_of_the_directories_that_bear_it() -> None:
    rule = {**MAKE, "tag": "shop"}
    tag = [{"name": "shop", "directories": ["/srv/shop"]}]
    given = {"command": "make test"}

    assert allows(rule, given, cwd="/srv/shop/a", tag=tag)
    assert not allows(rule, given, cwd="/srv/shopping", tag=tag)
    assert allows(rule, given, cwd="/x", tag=[{"name": "shop"}])


def test_of_several_tags_the_shortest_rest_counts_and_never_before_all(tmp_path: Path) -> None:
    tags = [
        {"name": "a", "directories": [str(tmp_path)], "suspend_after_min": 5},
        {"name": "b", "directories": [str(tmp_path / "b")], "suspend_after_min": 2},
        {"name": "c", "directories": [str(tmp_path / "c")], "suspend_after_min": 0},
        {"name": "d"},
    ]
    policy = policy_of(Path("config.toml"), {"suspend_after_min": 10, "tag": tags})

    said = [
        policy.rest_ms(str(each)) for each in (Path("/x"), tmp_path, *map(tmp_path.joinpath, "bc"))
    ]
    assert said == [600_000, 300_000, 120_000, None]
    assert policy_of(Path("config.toml"), {}).rest_ms("/x") is None
    with pytest.raises(ConfigError, match="suspend_after_min"):
        policy_of(Path("config.toml"), {"suspend_after_min": -1})


def test_the_first_rule_that_fits_decides_and_a_dry_one_only_is_tried() -> None:
    deny = {"decision": "deny", "tool": "shell", "pattern": "make install*"}
    given = {"command": "make install"}

    assert not allows([deny, MAKE], given)
    assert allows([MAKE, deny], given)
    dry = judged([{**deny, "dry_run": True}, MAKE], given)
    assert [each.name for each in dry.tried] == ["r0"]
    assert dry.rule is not None
    assert dry.rule.name == "r1"


@pytest.mark.parametrize(
    "command", ["git push", "git  push origin", "'git' push", "git push; ls", "git push\nls"]
)
def test_what_is_denied_is_denied_however_it_is_written(command: str) -> None:
    deny = {"decision": "deny", "tool": "shell", "pattern": "git push*"}
    rule = judged([deny, {**MAKE, "pattern": "git *"}], {"command": command}).rule

    assert rule is None or rule.decision == "deny"


@pytest.mark.parametrize(
    ("body", "verbs"),
    [
        (permission("AskUserQuestion", {"questions": [FEATURES]}), None),
        (permission("ExitPlanMode", {"plan": "x"}), None),
        (permission(), ("deny", "defer")),
    ],
)
def test_a_rule_never_allows_what_a_person_could_not_or_has_to_think_about(
    body: bytes, verbs: Any
) -> None:
    asked = asked_by(body)
    asked = msgspec.structs.replace(asked, verbs=verbs) if verbs else asked
    rules = [
        PolicyRule(str(n), "allow", tool=tool, pattern=pattern, dry_run=False)
        for n, tool in enumerate(("shell", "question", "plan", "AskUserQuestion", "ExitPlanMode"))
        for pattern in ("make *", None)
    ]

    assert Policy(tuple(rules)).judge(Matter(asked, NOON, same)).rule is None


def test_where_two_persons_are_needed_no_rule_allows_but_one_may_deny() -> None:
    given = {"command": "make test"}
    two: dict[str, Any] = {"tag": [{"name": "shop"}], "two_persons": ["shop"]}

    assert judged(MAKE, given, **two).rule is None
    assert judged({**MAKE, "decision": "deny"}, given, **two).rule is not None


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"rule": [{**MAKE, "name": "a", "tool": None}]}, r"1 \(a\): it would allow every tool"),
        ({"rule": [{**MAKE, "name": "a", "pattern": None}]}, "it would allow every `shell`"),
        ({"rule": [{**MAKE, "name": "a", "pattern": "*"}]}, "begins with a wildcard"),
        ({"rule": [{**MAKE, "name": "a", "pattern": "ma* test"}]}, "leaves open which program"),
        ({"rule": [{"name": "a", "decision": "deny"}]}, "it would deny everything"),
        ({"rule": [{**MAKE, "name": "a", "decision": "ask"}]}, "Write one of allow, deny"),
        ({"rule": [{**MAKE, "name": "a", "patern": "x"}]}, "unknown field `patern`"),
        ({"rule": [{**MAKE, "name": "a", "between": "8-18"}]}, "no time of day.*08:00-18:00"),
        ({"rule": [{**MAKE, "name": "a", "directory": "work"}]}, "`directory` is not absolute"),
        ({"rule": [{**MAKE, "name": "a", "tag": "x"}]}, "nothing bears the tag 'x'"),
        ({"rule": [{**MAKE, "name": "a", "reason": "x"}]}, "`reason` is for what is denied"),
        ({"rule": [{**MAKE, "name": "a\nb"}]}, "this is no name"),
        ({"rule": [{**MAKE, "name": "a"}, {**MAKE, "name": "a"}]}, "2 .a.: another rule has this"),
        ({"rule": [{**MAKE, "name": str(n)} for n in range(101)]}, "too many"),
        ({"two_persons": ["x"]}, "`two_persons` names the tag 'x'"),
        ({"rules": []}, "unknown field `rules`"),
        ({"rule": {}}, "config.toml"),
    ],
)
def test_a_bad_rule_is_told_with_its_place_the_cause_and_the_next_step(
    table: Any, said: str
) -> None:
    table = msgspec.to_builtins(table)
    for each in table["rule"] if isinstance(table.get("rule"), list) else ():
        each |= {name: value for name, value in list(each.items()) if value is not None}
        for name in [name for name, value in each.items() if value is None]:
            del each[name]

    with pytest.raises(ConfigError, match=said) as found:
        policy_of(FILE, table)

    assert str(found.value).startswith("/etc/config.toml")


def test_rules_come_and_go_with_the_file_and_a_bad_one_takes_all_away(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    live = LivePolicy(file)
    assert live.current == Policy()

    rule = '[[control.rule]]\nname = "a"\ndecision = "deny"\ntool = "shell"\n'
    file.write_text(rule)
    file.chmod(0o600)
    assert [each.name for each in live.current.rules] == ["a"]
    assert live.current.rules[0].dry_run
    file.write_text(f'{rule}pattern = "x"\ndecision = "allow"\n')
    assert live.current.rules == ()
    assert "config.toml" in (live.current.fault or "")
    file.unlink()
    assert live.current == Policy()


def test_a_file_that_others_may_write_holds_no_rule(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("hold_s = 5\n")
    file.chmod(0o666)
    assert read_policy(file) == Policy()

    file.write_text("[control]\n")
    with pytest.raises(ConfigError, match="chmod go-w"):
        read_policy(file)


def test_calls_and_what_people_said_are_read_from_a_transcript() -> None:
    call = (
        b'{"type":"assistant","cwd":"/srv","sessionId":"s","timestamp":"2026-11-20T10:00:00Z",'
        b'"message":{"content":[{"type":"text","text":"x"},'
        b'{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"make test"}}]}}'
    )
    result = (
        b'{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1"}]},'
        b'"permissionDecision":{"decision":"reject","source":"%s"}}'
    )

    (found,) = past_in(call)
    assert isinstance(found, PastCall)
    assert (found.id, found.asked.subject, found.asked.cwd) == ("t1", "make test", "/srv")
    assert found.at == 1_795_168_800_000
    assert past_in(result % b"user_reject") == [PastDecision("t1", accepted=False)]
    assert past_in(result % b"config") == ()
    refused = result.replace(b'"permissionDecision"', b'"toolDenialKind":"user-rejected","x"')
    assert past_in(refused % b"x") == ()  # it was ended while it ran
    before = refused.replace(b'"x":', b'"toolDenialBeforeRun":true,"x":')
    assert past_in(before % b"x") == [PastDecision("t1", accepted=False)]
    for odd in (b"", b'"tool_use"', b'{"type":"assistant","message":"tool_use"}', b'["tool_use"]'):
        assert list(past_in(odd + b' "tool_use"')) == []
