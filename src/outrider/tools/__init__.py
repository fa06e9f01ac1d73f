"""What a child can do. These names are for authors of tools."""

from outrider.protocol.envelope import (
    ToolCode as ToolCode,
    ToolFault as ToolFault,
    build_error_response as build_error_response,
    build_success_response as build_success_response,
)
from outrider.tools.context import ToolContext as ToolContext
from outrider.tools.formatting import (
    Arguments as Arguments,
    Formatter as Formatter,
    ResultFormatter as ResultFormatter,
)
from outrider.tools.registry import (
    Tool as Tool,
    ToolSession as ToolSession,
    collect_tools as collect_tools,
    tool as tool,
)
