"""What a child can do: tools, the executor that calls them, and the sessions they share."""

from outrider.protocol.envelope import build_error_response, build_success_response
from outrider.tools.registry import tool

__all__ = ["build_error_response", "build_success_response", "tool"]
