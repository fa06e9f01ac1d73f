"""The brief: all that a child is told, in one JSON object on its standard input."""

from dataclasses import dataclass, field
from typing import Any

from outrider.protocol.config import BudgetConfig, RetryConfig
from outrider.protocol.data import ABSENT, Absent

REPORT_BACK = "report_back"
"""The tool by which a child hands over an answer of the shape its caller asked for."""


@dataclass(frozen=True, slots=True)
class Brief:
    """One task for one child. Secrets travel in the environment, never here."""

    run_id: str
    agent: str
    system_prompt: str
    task: str
    model: str
    cwd: str
    tools: tuple[str, ...] = ()
    lsp_actions: tuple[str, ...] = ()
    tool_modules: tuple[str, ...] = ()
    allowed_roots: tuple[str, ...] = ()
    allow_credential_files: bool = False
    mask_tool_results: bool = True
    output_schema: Any | Absent = ABSENT
    report_back_attempts: int = 3
    timeout_ms: int = 900_000
    spill_folder: str | None = None
    retry: RetryConfig = field(default_factory=RetryConfig)
    budget: BudgetConfig = field(default_factory=BudgetConfig)


@dataclass(frozen=True, slots=True)
class Start:
    """What a child reads first: its brief, and the surroundings of its caller to take on.

    A cold child has all of them from the start but the secrets, a fork of the warm process none.
    """

    brief: Brief
    environment: dict[str, str]
    umask: int | None = None
    limits: tuple[tuple[int, ...], ...] = ()
    """Resource limits: number, soft, hard."""
