"""The exception that ends a tool call with an error envelope."""

from typing import Any

from outrider.protocol.envelope import Envelope, build_error_response
from outrider.protocol.errors import OutriderError


class ToolFault(OutriderError):
    """Why a tool call is refused or fails; the executor turns it into the caller's envelope."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data

    def envelope(self) -> Envelope:
        """Return the fault as a tool's answer."""
        return build_error_response(self.code, self.message, self.data)
