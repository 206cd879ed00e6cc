"""The command line: one module for each noun, `--json` everywhere, imported when used."""
