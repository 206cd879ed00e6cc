"""Makes JSON Schemas of GitLab's documents from the declarations of `@gitbeaker/core`, in `.tools`.

The local GitLab of the tests completes and checks its documents with them.
"""

import hashlib
import os
from pathlib import Path

from tools import web

PACKAGES = web.ROOT / "tools" / "gitlab_packages"
INSTALLED = web.ROOT / ".tools" / "gitlab"
FILES = ("package.json", "package-lock.json", "documents.ts")
GENERATOR = "node_modules/ts-json-schema-generator/bin/ts-json-schema-generator.js"


def install() -> Path:
    """Install what the lock file names and make the schemas, unless that is done; their file."""
    sources = b"\0".join((PACKAGES / name).read_bytes() for name in FILES)
    made = INSTALLED / f"documents-{hashlib.sha256(sources).hexdigest()[:16]}.json"
    if made.exists():
        return made
    web.install_copy(PACKAGES, INSTALLED, "declarations of GitLab's documents", files=FILES)
    # The declarations of a package are not checked again, and more fields than declared are legal.
    options = ("--type", "Documents", "--no-type-check", "--additional-properties")
    written = INSTALLED / f"documents-{os.getpid()}.part"
    arguments = (GENERATOR, "--path", "documents.ts", *options, "--out", str(written))
    web.run(*arguments, directory=INSTALLED)
    written.replace(made)
    return made


if __name__ == "__main__":
    install()
