"""The MCP server: delegation as a tool of every host that speaks the Model Context Protocol."""
