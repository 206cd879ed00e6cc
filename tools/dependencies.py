"""An audit of the dependencies of detent: `python -m tools.dependencies [--online]`.

Without a network: every locked package comes from one registry and has a hash, what is installed is
what is locked, what is imported is declared, and every licence lets detent be given away under its
own. With one, for each locked version: it was not taken back, its files still have the locked
hashes, and no weakness is known of it. What could not be checked is listed.
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

ROOT = Path(__file__).resolve().parents[1]
REGISTRY = "https://pypi.org/simple"
WEAKNESSES = "https://pypi.org/pypi/{name}/{version}/json"
FILES = "files.pythonhosted.org"
TIMEOUT_S = 20.0
#: Parts of a licence's name: those that ask no more of a distributor of detent than a notice, and
#: those that also want their own files, if changed, under the same licence.
PERMISSIVE = (
    *("MIT", "BSD", "Apache", "ISC", "PSF", "Python Software Foundation", "Unlicense", "Zlib"),
    *("any-OSI", "0BSD", "CC0", "public domain", "HPND"),
)
WEAK_COPYLEFT = ("LGPL", "GNU Lesser", "MPL", "Mozilla Public")

Package = Mapping[str, Any]


class Audit(NamedTuple):
    """What is wrong, what was checked, and what could not be."""

    problems: list[str]
    looked: list[str]
    unlooked: list[str]


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
    """As its metadata say it: an expression, else its classifiers, else its first words."""
    fields = cast(Message, distribution.metadata)
    declared = fields["License-Expression"]
    classified = [
        each.rpartition("::")[2].strip()
        for each in fields.get_all("Classifier") or ()
        if each.startswith("License ::") and not each.endswith("OSI Approved")
    ]
    first = (fields["License"] or "unknown").split("\n")[0]
    return declared or " or ".join(classified) or first


def licence_problems(found: Mapping[str, str]) -> Iterator[str]:
    for name, licence in sorted(found.items()):
        if not any(each.lower() in licence.lower() for each in (*PERMISSIVE, *WEAK_COPYLEFT)):
            yield f"{name} has the licence {licence!r}"


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


# ---- with one --------------------------------------------------------------------------------


def online_problems(packages: Sequence[Package], unlooked: list[str]) -> Iterator[str]:
    """What the registry says today of each locked version."""
    for package in packages:
        name, version = package["name"], package["version"]
        page = _fetch(f"{REGISTRY}/{name}/")
        if page is None:
            unlooked.append(f"{name}: the registry did not answer")
            continue
        yield from _of_page(package, page.decode("utf-8"))
        document = _fetch(WEAKNESSES.format(name=name, version=version))
        if document is None:
            unlooked.append(f"{name} {version}: known vulnerabilities")
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
            yield f"{package['name']} {package['version']} was taken back"
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
    packages, found = locked(), licences()
    problems = [
        *source_problems(packages),
        *installed_problems(packages),
        *undeclared_problems(),
        *licence_problems(found),
    ]
    files = sum(len(files_of(each)) for each in packages)
    looked = [f"{len(packages)} packages, {files} hashes, {len(found)} licences"]
    unlooked: list[str] = []
    if online:
        problems += online_problems(packages, unlooked)
        looked.append("the registry's metadata of each of them")
    else:
        unlooked.append("whether a version was taken back, and known weaknesses")
    return Audit(problems, looked, unlooked)


def main(arguments: Sequence[str]) -> None:
    found = audit(online="--online" in arguments)
    document = {**found._asdict(), "licences": licences()}
    print(json.dumps(document, indent=2))
    sys.exit(1 if found.problems else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
