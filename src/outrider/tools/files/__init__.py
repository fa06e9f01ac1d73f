"""The file tools: what a child can see and change of the working tree."""

from outrider.tools.files.editing import edit
from outrider.tools.files.finding import find
from outrider.tools.files.listing import ls
from outrider.tools.files.reading import read
from outrider.tools.files.searching import grep
from outrider.tools.files.writing import write
from outrider.tools.registry import Tool, collect_tools

FILE_TOOLS: tuple[Tool, ...] = tuple(collect_tools([read, grep, find, ls, write, edit]))

__all__ = ["FILE_TOOLS", "edit", "find", "grep", "ls", "read", "write"]
