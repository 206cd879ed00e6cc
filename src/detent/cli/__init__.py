"""The command line: one module per noun, imported when it is used; every command has `--json`."""
