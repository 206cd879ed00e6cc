"""A local server that speaks the model APIs of agent command lines, as strict as the real ones."""
