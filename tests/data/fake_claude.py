"""A stand-in for Claude Code: registers itself as that does, rests, and leaves when it is told to."""

import json
import os
import signal
import sys
import time
from pathlib import Path


def main(words: list[str]) -> None:
    folder = Path(os.environ["CLAUDE_CONFIG_DIR"])
    name = next(each for each in ("--session-id", "--resume") if each in words)
    session_id = words[words.index(name) + 1]
    if "MAX_UNTRUSTED" in os.environ and name == "--resume":
        print("Do you trust the files in this folder?", os.environ["MAX_UNTRUSTED"], flush=True)
        time.sleep(600)
    told = {"words": words, "env": dict(os.environ), "cwd": str(Path.cwd())}
    (folder / f"given-{session_id}").write_text(json.dumps(told))
    stat = Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()
    file = folder / "sessions" / f"{os.getpid()}.json"
    entry = {
        "pid": os.getpid(),
        "sessionId": session_id,
        "cwd": str(Path.cwd()),
        "procStart": stat[19],
        "kind": "interactive",
        "entrypoint": "cli",
        "status": "busy" if "--" in words else "idle",
        "statusUpdatedAt": int(time.time() * 1000) - 3_600_000,
    }
    draft = file.with_suffix(".new")
    draft.write_text(json.dumps(entry))

    def leave(_number: int, _frame: object) -> None:
        if "MAX_STUBBORN" not in os.environ:
            file.unlink(missing_ok=True)
            os._exit(0)

    signal.signal(signal.SIGTERM, leave)
    draft.replace(file)
    while True:
        time.sleep(60)


if __name__ == "__main__":
    main(sys.argv[1:])
