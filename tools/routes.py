"""Writes the table by which the Python client finds operations without importing them.

`tools.generate` writes what PAGES names; nothing here touches a file.
"""

from collections.abc import Callable, Mapping

from detent.operations import OPERATIONS

HEAD = '''\
"""The HTTP route of each operation: method, path, and the parameter that is the whole body.

Generated from the operations, so that a client does not import them.
"""

from collections.abc import Mapping

ROUTES: Mapping[str, tuple[str, str, str | None]] = {
'''


def routes_table() -> str:
    """The module, line by line as the formatter would have it."""
    lines = [HEAD]
    for each in sorted(OPERATIONS.values(), key=lambda each: each.name):
        whole = "None" if each.whole is None else f'"{each.whole}"'
        lines.append(f'    "{each.name}": ("{each.method}", "{each.path}", {whole}),\n')
    return "".join([*lines, "}\n"])


PAGES: Mapping[str, Callable[[], str]] = {"src/detent/http_routes.py": routes_table}
