"""The rules in Python, one module for each family of codes."""
