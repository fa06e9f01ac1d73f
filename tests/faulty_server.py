"""A language server that goes wrong in the way that its argument says. A real program on stdio."""

import json
import os
import sys
import time
from pathlib import Path

MODE, *MORE = sys.argv[1:]
CAPABILITIES = {
    **dict.fromkeys(("definition", "references", "hover", "rename", "callHierarchy"), True),
    **dict.fromkeys(("documentSymbol", "workspaceSymbol"), True),
}
if MODE in ("wrong-shape", "no-places", "a-word", "one-good"):
    CAPABILITIES["diagnostic"] = {"workspaceDiagnostics": True}
BIG = 50_000_000
questions = 0


def send(message, body=None):
    body = body or json.dumps({"jsonrpc": "2.0", **message}).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
    sys.stdout.buffer.flush()


def receive():
    length = 0
    while (line := sys.stdin.buffer.readline()) not in (b"\r\n", b""):
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    return json.loads(sys.stdin.buffer.read(length)) if length else None


def sleep_for_ever():
    while True:
        time.sleep(60)


def place(line, character, uri):
    at = {"line": line, "character": character}
    return {"uri": uri, "range": {"start": at, "end": at}}


def answer(message):
    global questions
    number, uri = message["id"], message["params"].get("textDocument", {}).get("uri")
    questions += 1
    if MODE == "crash-third" and questions == 3:
        sys.exit("the third question is too much")
    if MODE == "crash-checking" and "diagnostic" in message["method"]:
        sys.exit("checking is too much")
    if MODE == "talk":
        note = {"method": "window/logMessage", "params": {"type": 3, "message": "thinking"}}
        while True:
            send(note)
            time.sleep(0.05)
    while MODE == "demand":  # and never reads what it is answered
        send({"id": 1, "method": "workspace/workspaceFolders"})
    if MODE == "hang":
        sleep_for_ever()
    if MODE == "hang-once" and questions == 1:
        return None  # it goes on with the next question
    if MODE == "garbage":
        os.write(1, b"Segmentation fault (core dumped)\n")
    if MODE == "no-json":
        return send({}, b"{nonsense}")
    if MODE == "no-object":
        return send({}, b"[1, 2, 3]")
    if MODE == "huge" and questions == 1:
        return send({}, b'{"id":%d,"result":"%b"}' % (number, b"x" * BIG))
    if MODE == "flood":
        for _ in range(400):
            os.write(2, b"E" * 65_536)
    if MODE == "error":
        error = {"code": -32603, "message": "\x1b[31mno \x07idea" + "!" * 100_000}
        return send({"id": number, "error": error})
    if MODE == "stack":
        error = {"code": 1, "message": "Server Error\nNo Project.\n    at open (/x/server.js:1:2)"}
        return send({"id": number, "error": error})
    if MODE == "retry" and questions < 3:
        return send({"id": number, "error": {"code": -32801, "message": "modified"}})
    if MODE == "children":
        Path(MORE[0]).write_text(str(os.spawnlp(os.P_NOWAIT, "sleep", "sleep", "1000")))
    results = {
        "outside": [place(0, 0, "file:///etc/passwd"), place(1, 0, "https://x/y"), 7],
        "beyond": [place(10**6, 3, uri), place(0, 10**6, uri), place(-1, 0, uri)],
        "many": [place(n % 9, n, uri) for n in range(5_000)],
        "wrong-shape": {"uri": {}, "range": []},
        **dict.fromkeys(("one-good", "modest"), one_good(message["method"])),
        "no-places": [7, {}, "x"],
        "a-word": "x",
        "secret": [place(int(part), 0, uri) for part in MORE if part.isdigit()],
        "named": [place(0, 0, f"file://{part}") for part in MORE],
        "environment": {"contents": json.dumps({part: os.environ.get(part) for part in MORE})},
        "rename": {"changes": {f"file://{part}": [edit(part)] for part in MORE}},
    }
    if "rename" in message["method"]:
        return send({"id": number, "result": results["rename"]})
    return send({"id": number, "result": results.get(MODE, [place(0, 0, uri)])})


def one_good(method):
    """Return an answer to a method that has one usable entry among others."""
    uri = Path("app.py").absolute().as_uri()
    bad = [7, {}, place(True, 0, uri), place(0, 1.5, uri)]
    good = {**place(2, 0, uri), "name": "name_2"}
    if method.startswith("callHierarchy/"):
        other = {"uri": uri, "name": "name_2", "selectionRange": good["range"]}
        ranges = [7, *(one["range"] for one in bad[2:]), good["range"]]
        return [7, {}, {"from": {}}, {"from": other, "to": other, "fromRanges": ranges}]
    if method == "textDocument/diagnostic":
        return {"items": [*bad, good]}
    if method == "workspace/diagnostic":
        return {"items": [7, {"uri": uri, "items": [*bad, good]}, {"uri": 7, "items": [7]}]}
    if method == "workspace/symbol":
        return [*bad, {"name": "name_2", "location": good}]
    return [*bad, good] if "Symbol" in method else [*bad, place(0, 0, 7), good]


def edit(part):
    at = {"line": 0, "character": 0}
    return {"range": {"start": at, "end": at}, "newText": f"# {Path(part).name}\n"}


def main():
    if MODE == "crash-start":
        sys.exit("\x1b[1mcannot find my licence")
    if MODE == "hang-start":
        sleep_for_ever()
    if MODE == "unread":
        time.sleep(1000)
    while (message := receive()) is not None:
        method = message.get("method")
        if method == "initialize":
            capabilities = {f"{name}Provider": value for name, value in CAPABILITIES.items()}
            info = {"name": "faulty", "version": "1.2"}
            send(
                {"id": message["id"], "result": {"capabilities": capabilities, "serverInfo": info}}
            )
            if MODE == "loads":
                value = {"kind": "begin", "title": "Indexing"}
                send({"method": "$/progress", "params": {"token": "t", "value": value}})
        elif method == "shutdown":
            send({"id": message["id"], "result": None})
        elif method == "exit":
            break
        elif method == "$/cancelRequest" and MORE:
            Path(MORE[0]).write_text("cancelled")
        elif "id" in message and method:
            answer(message)


if __name__ == "__main__":
    main()
