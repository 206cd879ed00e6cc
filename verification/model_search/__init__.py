"""An exhaustive search over the real kernel: every order in which a few actors can act."""
