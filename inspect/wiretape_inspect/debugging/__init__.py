"""The server behind the debugger's page."""
