"""An audit of the dependencies of detent: `python -m tools.dependencies [--online]`.

Without a network: every locked package comes from one registry and has a hash, what is installed is
what is locked, what is imported is declared, every licence lets detent be distributed under its
own, and the dashboard comes with the licences of what is bundled into it. With a network, for each
locked version: it was not yanked, its files still have the locked hashes, and it has no known
vulnerability. What could not be checked is listed.
"""

import ast
import json
import re
import sys
import tomllib
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from email.message import Message
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

from tools import web

ROOT = Path(__file__).resolve().parents[1]
REGISTRY = "https://pypi.org/simple"
VULNERABILITIES = "https://pypi.org/pypi/{name}/{version}/json"
FILES = "files.pythonhosted.org"
TIMEOUT_S = 20.0
#: Parts of a licence's name: those that ask no more of a distributor of detent than a notice, and
#: those that also want their own files, if changed, under the same licence.
PERMISSIVE = (
    *("MIT", "BSD", "Apache", "ISC", "PSF", "Python Software Foundation", "Unlicense", "Zlib"),
    *("any-OSI", "0BSD", "CC0", "public domain", "HPND"),
)
WEAK_COPYLEFT = ("LGPL", "GNU Lesser", "MPL", "Mozilla Public")
#: Licences of the packages that are bundled into the dashboard: exactly these.
OF_THE_DASHBOARD = frozenset({"MIT", "BSD-3-Clause", "ISC", "Apache-2.0", "0BSD", "OFL-1.1"})

Package = Mapping[str, Any]


class Audit(NamedTuple):
    """What is wrong, what was checked, and what could not be."""

    problems: list[str]
    checked: list[str]
    unchecked: list[str]


def locked() -> list[Package]:
    """Every package of the lock file but detent itself."""
    with (ROOT / "uv.lock").open("rb") as file:
        packages = tomllib.load(file)["package"]
    return [each for each in packages if each["source"] != {"editable": "."}]


# ---- without a network -----------------------------------------------------------------------


def source_problems(packages: Sequence[Package]) -> Iterator[str]:
    """One registry, and for each file its host and its hash."""
    for package in packages:
        if package["source"] != {"registry": REGISTRY}:
            yield f"{package['name']} comes from {package['source']}"
        for file in files_of(package):
            if urlsplit(file["url"]).hostname != FILES:
                yield f"{package['name']}: a file comes from {file['url']}"
            if not re.fullmatch(r"sha256:[0-9a-f]{64}", file.get("hash", "")):
                yield f"{package['name']}: {file['url']} has no hash"


def files_of(package: Package) -> list[Mapping[str, Any]]:
    sdist = package.get("sdist")
    return [*package.get("wheels", ()), *([sdist] if sdist else [])]


def installed_problems(packages: Sequence[Package]) -> Iterator[str]:
    """Nothing is installed but detent and what is locked, in the locked version."""
    versions: dict[str, set[str]] = {}
    for package in packages:
        versions.setdefault(package["name"], set()).add(package["version"])
    for each in metadata.distributions():
        name = _normal(each.name)
        if name != "detent" and each.version not in versions.get(name, ()):
            yield f"{name} {each.version} is installed, locked is {versions.get(name, 'nothing')}"


def licences() -> dict[str, str]:
    """Of everything that is installed, by name."""
    return {
        _normal(each.name): licence_of(each)
        for each in metadata.distributions()
        if _normal(each.name) != "detent"
    }


def licence_of(distribution: metadata.Distribution) -> str:
    """As its metadata say it: an expression, else its classifiers, else its first words.

    If they say nothing, the title of its licence file.
    """
    fields = cast(Message, distribution.metadata)
    declared = fields["License-Expression"]
    classified = [
        each.rpartition("::")[2].strip()
        for each in fields.get_all("Classifier") or ()
        if each.startswith("License ::") and not each.endswith("OSI Approved")
    ]
    first = (fields["License"] or "").split("\n")[0]
    return declared or " or ".join(classified) or first or _licence_title(distribution)


def _licence_title(distribution: metadata.Distribution) -> str:
    for name in ("licenses/LICENSE", "LICENSE"):
        lines = (distribution.read_text(name) or "").split("\n")
        title = next((line.strip() for line in lines if line.strip()), None)
        if title is not None:
            return title
    return "unknown"


def licence_problems(found: Mapping[str, str]) -> Iterator[str]:
    for name, licence in sorted(found.items()):
        if not is_allowed(licence):
            yield f"{name} has the licence {licence!r}"


def is_allowed(licence: str) -> bool:
    """Whether a licence lets detent be passed on: all parts of an `AND`, one part of an `OR`."""
    plain = licence.replace("(", " ").replace(")", " ")
    return all(
        any(_is_known(choice) for choice in re.split(r"\s+OR\s+", part, flags=re.IGNORECASE))
        for part in re.split(r"\s+AND\s+", plain, flags=re.IGNORECASE)
    )


def _is_known(licence: str) -> bool:
    if re.search(r"\bA?GPL|GNU (Affero )?General", licence, re.IGNORECASE):
        return False  # also if it names another licence beside it
    return any(each.lower() in licence.lower() for each in (*PERMISSIVE, *WEAK_COPYLEFT))


# ---- the dashboard ---------------------------------------------------------------------------


def bundled() -> dict[str, Package]:
    """The npm packages whose code, styles or fonts are in the dashboard, as they are locked."""
    packages = json.loads((ROOT / "web" / "package-lock.json").read_text("utf-8"))["packages"]
    found: dict[str, Package] = {}
    waiting = list(packages[""]["dependencies"])
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = packages[f"node_modules/{name}"]
            waiting += found[name].get("dependencies", ())
    return dict(sorted(found.items()))


def bundled_problems(packages: Mapping[str, Package], notices: str) -> Iterator[str]:
    """Each has an allowed licence, and its text is shipped with the dashboard."""
    titles = {part.split("\n", 1)[0] for part in re.split(r"\n-{80}\n\n", notices)}
    for name, package in packages.items():
        licence = package.get("license", "unknown")
        if licence not in OF_THE_DASHBOARD:
            yield f"{name}, which is in the dashboard, has the licence {licence!r}"
        if name not in titles:
            yield f"licences.txt of the dashboard has no licence of {name}"


def undeclared_problems(code: Path = ROOT / "src") -> Iterator[str]:
    """What the code imports is named in pyproject.toml, not merely brought by something else."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    extras = project["optional-dependencies"].values()
    wanted = [*project["dependencies"], *(each for extra in extras for each in extra)]
    declared = {"detent", *(_normal(re.split(r"[\[>=<]", each)[0]) for each in wanted)}
    owners = metadata.packages_distributions()
    for module, path in sorted(_imports(code).items()):
        found = {_normal(each) for each in owners.get(module, ())}
        if found and not found & declared:
            yield f"{path.relative_to(code)} imports {module}, which pyproject.toml does not name"


def _imports(code: Path) -> dict[str, Path]:
    """Every module from outside that a file imports, by its first name, with one such file."""
    found: dict[str, Path] = {}
    for path in sorted(code.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                found |= {each.name.partition(".")[0]: path for each in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found[node.module.partition(".")[0]] = path
    return found


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


# ---- with a network -------------------------------------------------------------------------


def online_problems(packages: Sequence[Package], unchecked: list[str]) -> Iterator[str]:
    """What the registry says today of each locked version."""
    for package in packages:
        name, version = package["name"], package["version"]
        page = _fetch(f"{REGISTRY}/{name}/")
        if page is None:
            unchecked.append(f"{name}: the registry did not answer")
            continue
        yield from _of_page(package, page.decode("utf-8"))
        document = _fetch(VULNERABILITIES.format(name=name, version=version))
        if document is None:
            unchecked.append(f"{name} {version}: known vulnerabilities")
            continue
        for each in json.loads(document).get("vulnerabilities", ()):
            if not each.get("withdrawn"):
                yield f"{name} {version}: {each['id']}: {each.get('summary') or each['details']}"


def _of_page(package: Package, page: str) -> Iterator[str]:
    links = {each["url"]: each for each in _links(page)}
    for file in files_of(package):
        link = links.get(file["url"])
        if link is None:
            yield f"{package['name']}: {file['url']} is not in the registry any more"
        elif link["yanked"]:
            yield f"{package['name']} {package['version']} was yanked"
        elif link["hash"] not in ("", file["hash"]):
            yield f"{package['name']}: the hash of {file['url']} is {link['hash']}"


def _links(page: str) -> Iterator[dict[str, Any]]:
    for attributes in re.findall(r"<a\s+([^>]*)>", page):
        target = re.search(r'href="([^"]*)"', attributes)
        if target is not None:
            url, _, fragment = target[1].partition("#")
            digest = fragment.replace("sha256=", "sha256:") if fragment else ""
            yield {"url": url, "hash": digest, "yanked": "data-yanked" in attributes}


def _fetch(url: str) -> bytes | None:
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
            content: bytes = answer.read()
            return content
    except (urllib.error.URLError, TimeoutError):
        return None


def audit(*, online: bool = False) -> Audit:
    packages, found, in_dashboard = locked(), licences(), bundled()
    problems = [
        *source_problems(packages),
        *installed_problems(packages),
        *undeclared_problems(),
        *licence_problems(found),
        *bundled_problems(in_dashboard, (web.BUILT / "licences.txt").read_text("utf-8")),
    ]
    files = sum(len(files_of(each)) for each in packages)
    checked = [f"{len(packages)} packages, {files} hashes, {len(found)} licences"]
    checked.append(f"{len(in_dashboard)} packages in the dashboard")
    unchecked: list[str] = []
    if online:
        problems += online_problems(packages, unchecked)
        checked.append("the registry's metadata of each of them")
    else:
        unchecked.append("whether a version was yanked, and known vulnerabilities")
    return Audit(problems, checked, unchecked)


def main(arguments: Sequence[str]) -> None:
    found = audit(online="--online" in arguments)
    document = {**found._asdict(), "licences": licences()}
    print(json.dumps(document, indent=2))
    sys.exit(1 if found.problems else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
