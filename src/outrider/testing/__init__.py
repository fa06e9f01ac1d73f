"""A scripted model server for tests: speaks the OpenAI chat wire format, and fails on demand.

```python
from outrider.testing import ScriptedModel, answer, tool_call

with ScriptedModel([tool_call("grep", {"pattern": "x"}), answer("Found it.")]) as server:
    ...  # run what you test with `server.environment` set and `server.model` as its model
    assert server.requests[1].turn == 1
```
"""

from outrider.testing import steps
from outrider.testing.server import ScriptedModel
from outrider.testing.steps import *  # noqa: F403
from outrider.testing.wire import ModelRequest

__all__ = ["ModelRequest", "ScriptedModel"]
__all__ += steps.__all__
