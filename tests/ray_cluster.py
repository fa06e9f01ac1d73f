"""A real Ray cluster of several nodes on this machine, in namespaces of its own.

Each node has a network namespace, an address on a bridge and a home of its own. All that it starts
ends with the process namespace, and nothing of it can be reached from outside.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psutil

from conftest import MEASURING
from outrider.testing import ScriptedModel

APART = ("unshare", "-Urnmp", "--fork", "--mount-proc", "--kill-child")
HEAD, PORT = "10.77.0.1", 6379
PATIENCE_SECONDS = 240
RAY = str(Path(sys.executable).with_name("ray"))
SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "disabled",
    # A busy machine is slow to start a node.
    "RAY_raylet_start_wait_time_s": "120",
    "RAY_gcs_server_request_timeout_seconds": "120",
    # How soon a node counts as gone, and how soon it notices that the others are.
    "RAY_health_check_initial_delay_ms": "3000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "5000",
    "RAY_health_check_failure_threshold": "4",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "20",
}


def apart(*command: str, **options: Any) -> "subprocess.CompletedProcess[str]":
    """Run a command in namespaces of its own: of users, network, mounts and processes."""
    return subprocess.run([*APART, *command], text=True, **options)


def wait_for_children() -> None:
    """Return when no child of Outrider is left on any node."""
    deadline = time.monotonic() + 60
    while left := children():
        assert time.monotonic() < deadline, f"these are left: {left}"
        time.sleep(0.05)


def wait_until(reached: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not reached():
        assert time.monotonic() < deadline, f"{what} doesn't come about"
        time.sleep(0.05)


def serving(script: Any, port: int = 0) -> ScriptedModel:
    """Return a scripted model that the nodes reach too; it listens when it is entered."""
    real = socket.create_server

    class Served(ScriptedModel):
        def __enter__(self) -> Any:
            anywhere = patch("socket.create_server", lambda at, **how: real(("", at[1]), **how))
            with anywhere:
                return super().__enter__()

    return Served(script, port=port)


def environment(model: ScriptedModel) -> dict[str, str]:
    """Return the variables with which a node reaches the model."""
    url = model.base_url.replace("127.0.0.1", HEAD)
    return {**model.environment, "OPENAI_BASE_URL": url}


class Cluster:
    """Nodes 1 to `count`; 1 is the head. Only in namespaces of one's own, as `apart` makes them."""

    def __init__(self, place: Path, count: int) -> None:
        self.place, self.count = place, count
        self._short = tempfile.mkdtemp(prefix="or", dir="/tmp")  # sockets have short paths
        self.project = place / "project"
        self.project.mkdir()
        self._started: list[subprocess.Popen[bytes]] = []
        self._ip("link", "set", "lo", "up")
        subprocess.run(["mount", "-t", "tmpfs", "none", "/run"], check=True)
        self._ip("link", "add", "br0", "type", "bridge")
        self._ip("addr", "add", f"{HEAD}/24", "dev", "br0")
        self._ip("link", "set", "br0", "up")
        for node in range(2, count + 1):
            self._ip("netns", "add", f"n{node}")
            far = ("type", "veth", "peer", "name", "e0", "netns", f"n{node}")
            self._ip("link", "add", f"v{node}", *far)
            self._ip("link", "set", f"v{node}", "master", "br0", "up")
            inside = ("-n", f"n{node}")
            self._ip(*inside, "addr", "add", f"10.77.0.{node}/24", "dev", "e0")
            self._ip(*inside, "link", "set", "e0", "up")
            self._ip(*inside, "link", "set", "lo", "up")

    def _ip(self, *words: str) -> None:
        subprocess.run(["ip", *words], check=True)

    def home(self, node: int) -> Path:
        home = self.place / f"home{node}"
        home.mkdir(exist_ok=True)
        return home

    def environment(self, node: int, env: Mapping[str, str] | None = None) -> dict[str, str]:
        base = {"PATH": os.environ["PATH"], "HOME": str(self.home(node)), "LANG": "C.UTF-8"}
        return {**base, **SETTINGS, **MEASURING, **(env or {})}

    def start_node(
        self, node: int, env: Mapping[str, str], places: int = 4, python: str = RAY
    ) -> None:
        """Start a node, and return when it has joined."""
        words = [python, "start", "--block", f"--node-ip-address=10.77.0.{node}", "--num-cpus=2"]
        words += [f'--resources={{"outrider": {places}}}', "--object-store-memory=80000000"]
        if node == 1:
            words += ["--head", f"--port={PORT}", "--include-dashboard=false"]
            words += [f"--temp-dir={self._short}", "--ray-client-server-port=10001"]
        else:
            words = ["ip", "netns", "exec", f"n{node}", *words, f"--address={HEAD}:{PORT}"]
        with open(self.place / f"node{node}.log", "wb") as log:
            options = {"env": self.environment(node, env), "stdout": log, "stderr": log}
            self._started.append(subprocess.Popen(words, **options))

        def has_joined() -> bool:
            said = (self.place / f"node{node}.log").read_text()
            assert self._started[-1].poll() is None, said
            return "Ray runtime started" in said

        wait_until(has_joined, f"node {node}")

    def raylet(self, node: int) -> psutil.Process:
        """Return a node's raylet."""
        address = f"--node_ip_address=10.77.0.{node}"
        for process in psutil.process_iter():
            if process.name() == "raylet" and address in process.cmdline():
                return process
        raise AssertionError(f"node {node} has no raylet")

    def kill_raylet(self, node: int) -> None:
        self.raylet(node).send_signal(signal.SIGKILL)

    def cut(self, node: int) -> None:
        """Cut the link of a node: nothing comes or goes any more."""
        self._ip("link", "set", f"v{node}", "down")

    def start(
        self,
        *words: str,
        program: str | None = None,
        env: Mapping[str, str] | None = None,
        **options: Any,
    ) -> Any:
        """Start the command or a program beside the head, in the caller's own home."""
        given = {"RAY_ADDRESS": f"{HEAD}:{PORT}", **(env or {})}
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE}
        streams["stderr"] = subprocess.PIPE
        return subprocess.Popen(
            [sys.executable, *(("-c", program) if program else ("-m", "outrider", *words))],
            cwd=self.project,
            env=self.environment(0, given),
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            text=True,
            **{**streams, **options},
        )

    def run(self, *words: str, env: Mapping[str, str] | None = None) -> Any:
        """Run the command to its end; return its code, output and errors."""
        process = self.start(*words, env=env)
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def close(self) -> None:
        for process in self._started:
            process.kill()
            process.wait()
        shutil.rmtree(self._short, ignore_errors=True)


def children() -> list[str]:
    """Return the children of Outrider that run on any node, and their guardians."""
    found: list[str] = []
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
            is_outriders = any(one.startswith("outrider.child") for one in words)
            is_fork = process.name().startswith("outrider")
            if (is_outriders or is_fork) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(f"{process.pid} {process.name()} {words}")
        except psutil.Error:
            continue
    return found
