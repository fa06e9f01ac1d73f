"""Documents as Markdown. They are parsed in a process that has nothing but the document."""

from outrider.tools.documents.conversion import convert_bytes

__all__ = ["convert_bytes"]
