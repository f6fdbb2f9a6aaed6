"""The recorder: a mitmproxy addon that captures exchanges and event streams."""
