"""A scripted model server for tests: speaks the OpenAI chat wire format, and fails on demand.

```python
from outrider.testing import ScriptedModel, answer, tool_call

with ScriptedModel([tool_call("grep", {"pattern": "x"}), answer("Found it.")]) as server:
    ...  # run what you test with `server.environment` set and `server.model` as its model
    assert server.requests[1].turn == 1
```
"""

from outrider.testing.server import ScriptedModel
from outrider.testing.steps import (
    Reply,
    Step,
    Usage,
    answer,
    context_overflow,
    cut,
    drip,
    empty,
    endless,
    fail,
    garbage,
    hang_up,
    malformed,
    refusal,
    silence,
    silence_after,
    stream_error,
    tool_call,
    tool_calls,
)
from outrider.testing.wire import ModelRequest

__all__ = [
    "ModelRequest",
    "Reply",
    "ScriptedModel",
    "Step",
    "Usage",
    "answer",
    "context_overflow",
    "cut",
    "drip",
    "empty",
    "endless",
    "fail",
    "garbage",
    "hang_up",
    "malformed",
    "refusal",
    "silence",
    "silence_after",
    "stream_error",
    "tool_call",
    "tool_calls",
]
