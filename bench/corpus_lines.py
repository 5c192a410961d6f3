"""Lines of made-up transcripts, in the order of keys that the real ones have."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime

CLASSES = ("input", "output", "cache_read", "cache_5m", "cache_1h", "web_searches")
MODELS = ("claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-5-5", "claude-fable-5-2")
OLDER_MODELS = ("claude-opus-4-6", "claude-sonnet-4-5-20250929")
#: From when the history is, ms; and over how long it is spread.
EPOCH = 1_780_000_000_000
SPREAD = 120 * 86_400_000
TEXT = """
the parser reads a line and returns None when nothing of it can be decoded def return self if else
for in import from assert result = value ( ) [ ] { } : , . => async await test file 'x' 0x7f
naïve café “quoted” — … ✓ 日本 \\u001b[32m \\t \\\\d+ \\\\ \\"key\\" \\"value\\" \\"usage\\" /home/dev/work
"""
WORDS = TEXT.split()

USAGE = (
    '"usage":{{"input_tokens":{input},"cache_creation_input_tokens":{written},'
    '"cache_read_input_tokens":{cache_read},"output_tokens":{output},'
    '"output_tokens_details":{{"thinking_tokens":0}},'
    '"server_tool_use":{{"web_search_requests":{web_searches},"web_fetch_requests":0}},'
    '"service_tier":"standard","cache_creation":{{"ephemeral_1h_input_tokens":{cache_1h},'
    '"ephemeral_5m_input_tokens":{cache_5m}}},"inference_geo":"{geo}","iterations":[{iterations}],'
    '"speed":"{speed}"}}'
)
ITERATION = (
    '{{"type":"message","input_tokens":{input},"output_tokens":{output},'
    '"cache_read_input_tokens":{cache_read},"cache_creation_input_tokens":{written}}}'
)
NEW = (
    '{{"parentUuid":"{parent}","isSidechain":{side},{agent}"message":{{"id":"{id}","type":"message",'
    '"role":"assistant","model":"{model}","content":[{content}],"stop_reason":{stop},'
    '"stop_sequence":null,{usage},"stop_details":null}},"apiBlockIndex":{block},{request}'
    '"requestRef":"{ref}","requestedModel":"{model}","promptCacheRequested":"5m",'
    '"type":"assistant","uuid":"{uuid}","timestamp":"{at}","effort":"medium",'
    '"perTurnEffort":"medium","madeBy":"model","userType":"external","entrypoint":"cli",'
    '"cwd":"{cwd}","sessionId":"{session}","version":"2.1.330","gitBranch":"main"}}\n'
)
OLD = (
    '{{"parentUuid":"{parent}","isSidechain":{side},"userType":"external","cwd":"{cwd}",'
    '"sessionId":"{session}","version":"2.0.14","gitBranch":"main",{agent}"message":'
    '{{"model":"{model}","id":"{id}","type":"message","role":"assistant","content":[{content}],'
    '"stop_reason":{stop},"stop_sequence":null,{usage}}},{request}"type":"assistant",'
    '"uuid":"{uuid}","timestamp":"{at}"}}\n'
)
TYPED = (
    '{{"parentUuid":"{parent}","isSidechain":{side},{agent}"promptId":"{ref}","type":"user",'
    '"message":{{"role":"user","content":"{text}"}},"uuid":"{uuid}","timestamp":"{at}",'
    '"permissionMode":"default","userType":"external","entrypoint":"cli","cwd":"{cwd}",'
    '"sessionId":"{session}","version":"2.1.330","gitBranch":"main"}}\n'
)
RESULT = (
    '{{"parentUuid":"{parent}","isSidechain":{side},{agent}"promptId":"{ref}","type":"user",'
    '"message":{{"role":"user","content":[{{"tool_use_id":"toolu_{ref}","type":"tool_result",'
    '"content":"{text}","is_error":false}}]}},"uuid":"{uuid}","timestamp":"{at}",'
    '"toolUseResult":{{"stdout":"{text}","stderr":"","interrupted":false,"isImage":false}},'
    '"sourceToolAssistantUUID":"{parent}","userType":"external","entrypoint":"cli","cwd":"{cwd}",'
    '"sessionId":"{session}","version":"2.1.330","gitBranch":"main"}}\n'
)
ATTACHMENT = (
    '{{"parentUuid":"{parent}","isSidechain":{side},{agent}"attachment":{{"type":"task_reminder",'
    '"content":[],"itemCount":0}},"type":"attachment","uuid":"{uuid}","timestamp":"{at}",'
    '"rendered":[{{"content":"{text}"}}],"userType":"external","entrypoint":"cli","cwd":"{cwd}",'
    '"sessionId":"{session}","version":"2.1.330","gitBranch":"main"}}\n'
)


class Pool:
    """Text as it stands within a JSON string, cut only between its lines."""

    def __init__(self, draw: random.Random) -> None:
        lines = [
            " " * draw.randrange(0, 16, 4) + " ".join(draw.choices(WORDS, k=draw.randrange(3, 14)))
            for _ in range(20_000)
        ]
        self._text = "\\n".join(lines)
        self._starts = [0]
        for line in lines:
            self._starts.append(self._starts[-1] + len(line) + 2)
        self._draw = draw

    def text(self, size: int) -> str:
        count = min(size // 45 + 1, 5000)
        first = self._draw.randrange(len(self._starts) - count - 1)
        return self._text[self._starts[first] : self._starts[first + count] - 2]


@dataclass
class Stage:
    """Where lines are written: whose, where, and when."""

    session: str
    cwd: str
    at: int
    model: str
    old: bool
    growing: bool
    gateway: bool
    agent: str = ""
    parent: str = "0" * 36

    @classmethod
    def drawn(cls, draw: random.Random, cwd: str, gateways: float) -> Stage:
        old = draw.random() < 1 / 6
        return cls(
            session=uuid(draw),
            cwd=cwd,
            at=EPOCH + draw.randrange(SPREAD),
            model=draw.choice(OLDER_MODELS if old else MODELS),
            old=old,
            growing=draw.random() < 0.5,
            gateway=draw.random() < gateways,
        )

    @property
    def forkable(self) -> bool:
        return not self.gateway

    def now(self) -> str:
        text = datetime.fromtimestamp(self.at / 1000, UTC).isoformat(timespec="milliseconds")
        return text.replace("+00:00", "Z")

    def subagent(self, draw: random.Random) -> Stage:
        return replace(self, agent=f"a{draw.getrandbits(64):016x}", at=self.at - 3_000_000)

    def forked(self, draw: random.Random) -> Stage:
        return replace(self, session=uuid(draw), at=self.at + 60_000)


@dataclass(frozen=True)
class Spent:
    """What one message used up, in the order of CLASSES."""

    numbers: tuple[int, int, int, int, int, int]
    speed: str
    geo: str

    @classmethod
    def drawn(cls, draw: random.Random, stage: Stage) -> Spent:
        written = int(draw.lognormvariate(7, 1.2))
        hour = 0 if stage.agent or draw.random() < 0.3 else written
        read = int(draw.lognormvariate(10.8, 0.8))
        searches = int(draw.random() < 0.01)
        output = int(draw.lognormvariate(5.2, 1.1)) + 8
        return cls(
            numbers=(draw.randrange(1, 40), output, read, written - hour, hour, searches),
            speed="fast" if draw.random() < 0.02 else "standard",
            geo="us" if draw.random() < 0.02 else "",
        )

    def text(self, output: int, *, iterations: bool) -> str:
        fields = dict(zip(CLASSES, self.numbers, strict=True)) | {"output": output}
        fields["written"] = fields["cache_5m"] + fields["cache_1h"]
        inner = ITERATION.format(**fields) if iterations else ""
        return USAGE.format(**fields, geo=self.geo, speed=self.speed, iterations=inner)


def uuid(draw: random.Random) -> str:
    text = f"{draw.getrandbits(128):032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def later(stage: Stage, draw: random.Random) -> None:
    stage.at += draw.randrange(200, 40_000)


def assistant(stage: Stage, draw: random.Random, pool: Pool, spent: Spent) -> Iterator[str]:
    """A message's lines, one per block."""
    identity = f"msg_01{draw.getrandbits(88):022x}"
    ref = uuid(draw)
    request = "" if stage.gateway else f'"requestId":"req_011{draw.getrandbits(84):021x}",'
    kinds = draw.choice(
        (["text"], ["tool"], ["text", "tool"], ["thinking", "tool"], ["thinking", "text", "tool"])
    )
    if stage.growing and len(kinds) > 2 and draw.random() < 0.1:
        kinds = [*kinds, "tool", "tool"]
    for block, kind in enumerate(kinds):
        last = block == len(kinds) - 1
        output = spent.numbers[1] if last or not stage.growing else min(8, spent.numbers[1])
        yield _line(
            OLD if stage.old else NEW,
            stage,
            draw,
            id=identity,
            request=request,
            ref=ref,
            model=stage.model,
            content=_block(kind, draw, pool),
            stop='"tool_use"' if last else "null",
            usage=spent.text(output, iterations=not stage.old and not stage.growing),
            block=block,
        )
        stage.at += draw.randrange(5, 900)


def _block(kind: str, draw: random.Random, pool: Pool) -> str:
    if kind == "thinking":
        signature = f"{draw.getrandbits(4096):x}"
        return f'{{"type":"thinking","thinking":"{pool.text(700)}","signature":"{signature}"}}'
    if kind == "text":
        return f'{{"type":"text","text":"{pool.text(int(draw.lognormvariate(5.6, 1)))}"}}'
    text = pool.text(min(int(draw.lognormvariate(6.2, 1.4)), 90_000))
    return (
        f'{{"type":"tool_use","id":"toolu_01{draw.getrandbits(88):022x}","name":"Edit",'
        f'"input":{{"file_path":"/home/dev/work/a.py","new_string":"{text}","replace_all":false}}}}'
    )


def user(stage: Stage, draw: random.Random, pool: Pool, *, typed: bool) -> str:
    size = 200 if typed else min(int(draw.lognormvariate(6.3, 1.5)), 45_000)
    return _line(TYPED if typed else RESULT, stage, draw, text=pool.text(size))


def attachment(stage: Stage, draw: random.Random, pool: Pool) -> Iterator[str]:
    for _ in range(draw.randrange(3)):
        yield _line(ATTACHMENT, stage, draw, text=pool.text(int(draw.lognormvariate(6.8, 1))))


def _line(template: str, stage: Stage, draw: random.Random, **fields: object) -> str:
    own = uuid(draw)
    text = template.format(
        parent=stage.parent,
        uuid=own,
        at=stage.now(),
        side="true" if stage.agent else "false",
        agent=f'"agentId":"{stage.agent}",' if stage.agent else "",
        cwd=stage.cwd,
        session=stage.session,
        **{"ref": uuid(draw), **fields},
    )
    stage.parent = own
    return text
