"""The subcommands, each in a module of its own that is loaded when it is run."""
