"""`python -m detent` is the same as `detent`."""

from detent.cli.main import main

main()
