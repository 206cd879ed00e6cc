"""An MCP server on standard input and output: `python mcp_weather.py FILE`; it notes its calls."""

import sys
from pathlib import Path

from mcp.server.mcpserver import MCPServer

server = MCPServer("weather")


@server.tool()
def forecast(city: str) -> str:
    """The forecast for a city."""
    with Path(sys.argv[1]).open("a") as file:
        file.write(f"{city}\n")
    return f"rain in {city}"


if __name__ == "__main__":
    server.run("stdio")
