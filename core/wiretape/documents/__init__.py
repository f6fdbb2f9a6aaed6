"""JSON values: places in them, and where two of them differ.  Pure."""
