"""A ledger for models to read over the Model Context Protocol, as ``docs/mcp.md`` says; ``chatsnapshot mcp`` runs it."""

from __future__ import annotations

from chatsnapshot.errors import MissingExtra

try:
    from mcp.server.mcpserver import MCPServer
except ImportError:
    raise MissingExtra("the MCP server", "mcp") from None

del MCPServer
