"""How an intent is carried out: a function, a command, an agent."""
