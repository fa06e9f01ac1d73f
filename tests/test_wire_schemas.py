"""What a provider is told of a tool's parameters: what they take, no less, on each wire."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from cli_door import Door

LABELS = '''
from outrider.tools import tool

@tool("box:label", name="label", writes=False)
def label(labels: dict[str, str], nested: list[dict[str, dict[str, int]]], any: dict) -> int:
    """Put labels on a box."""
    return len(labels)
'''
AGENT = "---\nname: packer\ntools: label\n---\nPack.\n"
MODELS = ("openai-chat:mine", "openai-responses:mine")


@contextmanager
def recorded() -> Iterator[tuple[dict[str, str], list[dict[str, Any]]]]:
    """A server that takes any request down and refuses it; its variables, and the bodies."""
    bodies: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(401)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    address = f"http://127.0.0.1:{server.server_address[1]}/v1"
    try:
        yield {"OPENAI_BASE_URL": address, "OPENAI_API_KEY": "any"}, bodies
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def offered(body: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a tool of a request: the two wires write it differently."""
    tools = [one.get("function", one) for one in body["tools"]]
    return next(one for one in tools if one["name"] == name)


def assert_takes_anything(schema: dict[str, Any]) -> None:
    assert schema["type"] == "object"
    assert schema.get("additionalProperties", True) not in (False, {"not": {}}), schema
    assert not schema.get("required")


@pytest.fixture
def door(tmp_path: Path, warm_runtime: Path) -> Door:
    return Door(tmp_path, warm_runtime)


@pytest.mark.parametrize("model", MODELS)
def test_an_output_schema_of_any_shape_can_be_handed_to_a_subagent(door: Door, model: str) -> None:
    with recorded() as (env, bodies):
        door.run("ask", "Where is it?", "--model", model, env=env)
    tool = offered(bodies[0], "subagent")
    assert_takes_anything(tool["parameters"]["properties"]["output_schema"])
    assert not tool.get("strict")


@pytest.mark.parametrize("model", MODELS)
def test_a_dict_of_the_users_tool_stays_open(door: Door, model: str) -> None:
    modules, agents = door.home / "modules", door.home / ".config" / "outrider" / "agents"
    modules.mkdir()
    agents.mkdir(parents=True)
    (modules / "boxes.py").write_text(LABELS)
    (agents / "packer.md").write_text(AGENT)
    with recorded() as (env, bodies):
        env |= {"PYTHONPATH": str(modules), "OUTRIDER_TOOLS__MODULES": "boxes"}
        ended = door.run("run", "packer", "Pack it.", "--model", model, env=env)
    assert bodies, ended.err
    tool = offered(bodies[0], "label")
    properties = tool["parameters"]["properties"]
    assert properties["labels"]["additionalProperties"] == {"type": "string"}
    inner = properties["nested"]["items"]["additionalProperties"]
    assert inner["additionalProperties"] == {"type": "integer"}
    assert_takes_anything(properties["any"])
    assert not tool.get("strict")
