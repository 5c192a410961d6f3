"""An MCP server on standard input, whose only tool asks for a name by a form and says it back."""

from __future__ import annotations

import json
import sys
from typing import Any

FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def say(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0"} | message), flush=True)


def main() -> None:
    called: Any = None
    for message in map(json.loads, sys.stdin):
        match message.get("method"):
            case "initialize":
                result: Any = {
                    "protocolVersion": message["params"]["protocolVersion"],
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "rig", "version": "1"},
                }
            case "tools/list":
                schema = {"type": "object", "properties": {}}
                result = {"tools": [{"name": "ask", "description": "Asks.", "inputSchema": schema}]}
            case "tools/call":
                called = message["id"]
                asked = {"message": "Who are you?", "requestedSchema": FORM}
                say(id="form", method="elicitation/create", params=asked)
                continue
            case None if message.get("id") == "form":
                told = json.dumps(message.get("result"))
                say(id=called, result={"content": [{"type": "text", "text": told}]})
                continue
            case _:
                result = {}
        if "id" in message:
            say(id=message["id"], result=result)


if __name__ == "__main__":
    main()
