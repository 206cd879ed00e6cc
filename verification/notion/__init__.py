"""A local server with the part of Notion's API that detent uses, as strict as the real one."""
