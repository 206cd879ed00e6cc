"""The software bill of materials, as one CycloneDX document.

It lists all Python packages that detent can install, and the npm packages in its dashboard.

uv writes the Python part from the lock file. The licences come from the installed packages, so all
extras must be installed. The npm part comes from the lock file of the dashboard.
"""

import base64
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tools import dependencies

ROOT = Path(__file__).resolve().parents[1]
UV = ROOT / ".tools" / "bin" / "uv"
EXPORT = ("export", "--quiet", "--frozen", "--no-dev", "--all-extras", "--format=cyclonedx1.5")
#: The ids of SPDX that occur; any other text is the name of a licence.
SPDX = frozenset(
    {
        *("0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "LGPL-3.0-only", "MIT"),
        *("MIT-0", "MPL-2.0", "OFL-1.1", "PSF-2.0"),
    }
)

Json = dict[str, Any]


def bill() -> Json:
    """The document. It has no timestamp and no serial number: the same lock gives the same bill."""
    command = [str(UV), *EXPORT, "--preview-features=sbom-export"]
    exported = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    document: Json = json.loads(exported)
    known = dependencies.licences()
    python = [_with_licence(each, known) for each in document["components"]]
    dashboard = [_npm_component(*each) for each in dependencies.bundled().items()]
    document["components"] = [*python, *dashboard]
    root = document["metadata"]["component"]
    root["licenses"] = [{"license": {"id": "Apache-2.0"}}]
    for each in document["dependencies"]:
        if each["ref"] == root["bom-ref"]:
            each["dependsOn"] = [*each.get("dependsOn", ()), *(one["bom-ref"] for one in dashboard)]
    document.pop("serialNumber", None)
    document["metadata"].pop("timestamp", None)
    return document


def _with_licence(component: Json, known: Mapping[str, str]) -> Json:
    """A component of Python; one for another system is not installed, and its licence unknown."""
    licence = known.get(component["name"])
    return component if licence is None else {**component, "licenses": [_licence(licence)]}


def _licence(text: str) -> Json:
    return {"license": {"id" if text in SPDX else "name": text}}


def _npm_component(name: str, package: Mapping[str, Any]) -> Json:
    kind, _, digest = package["integrity"].partition("-")
    assert kind == "sha512"
    path = "/".join(quote(part, safe="") for part in name.split("/"))
    purl = f"pkg:npm/{path}@{package['version']}"
    return {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": package["version"],
        "purl": purl,
        "licenses": [_licence(package["license"])],
        "hashes": [{"alg": "SHA-512", "content": base64.b64decode(digest).hex()}],
    }
