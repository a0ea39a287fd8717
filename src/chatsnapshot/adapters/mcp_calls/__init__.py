"""The Model Context Protocol while it is spoken: the calls that a client makes, and those that a server answers.

(:mod:`chatsnapshot.mcp` is something else: the ledger itself as an MCP server.) Importing this does not import ``mcp``.
"""

from __future__ import annotations

from chatsnapshot.adapters.mcp_calls.client import McpClientRecorder, install
from chatsnapshot.adapters.mcp_calls.server import McpServerRecorder

__all__ = ["McpClientRecorder", "McpServerRecorder", "install"]
