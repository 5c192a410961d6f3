"""An agent's terminal as far as its input box goes: run as `fake_box.py LOG [MODE]`.

Keys: C-j a new line, C-s stashes the text, Enter submits it and brings the stash back, Escape. Each
submit and each Escape is a line of LOG. MODE: dialog shows no box; asks shows none once there is
a second line; deaf takes no text; vim begins in NORMAL mode, visual in VISUAL, pending with an
operator that takes the next key, stuck never leaves NORMAL.
"""

import json
import os
import sys
import tty
from pathlib import Path

RULE = "─" * 60


def draw(text: str, mode: str, keys: int, mark: str) -> None:
    lines = text.split("\n")
    box = ["\u276f\u00a0" + lines[0], *("  " + each for each in lines[1:])]
    asks = mode == "dialog" or (mode == "asks" and len(lines) > 1)
    shown = ["Do you want to proceed?"] if asks else [RULE, *box, RULE, f"  {mark} manual mode on"]
    sys.stdout.write("\x1b[2J\x1b[H" + "\r\n".join([f"key {keys}", *shown]) + "\r\n")
    sys.stdout.flush()


def main() -> None:
    log, mode = sys.argv[1], [*sys.argv, ""][2]
    text, stash, keys = "", "", 0
    vim = {"vim": "NORMAL", "stuck": "NORMAL", "visual": "VISUAL", "pending": "PENDING"}.get(mode)
    tty.setraw(0)
    draw(text, mode, keys, mark_of(vim))
    while raw := os.read(0, 4096):
        for key in raw.decode():
            keys += 1
            said = None
            if key == "\r":
                said, text, stash = {"submit": text}, stash, ""
            elif key == "\x13":
                stash, text = text, ""
            elif vim and (key == "\x1b" or vim != "INSERT"):
                vim = vim_after(vim, key, mode)
            elif key == "\x1b":
                said = {"escape": True}
            elif mode != "deaf":
                text = text[:-1] if key == "\x7f" else text + key
            if said:
                with Path(log).open("a") as file:
                    file.write(json.dumps(said) + "\n")
        draw(text, mode, keys, mark_of(vim))


def vim_after(vim: str, key: str, mode: str) -> str:
    if key == "\x1b" or vim == "PENDING":
        return "NORMAL"
    return "INSERT" if vim == "NORMAL" and key in "iAao" and mode != "stuck" else vim


def mark_of(vim: str | None) -> str:
    return f"-- {vim} --" if vim in ("INSERT", "VISUAL") else ""


main()
