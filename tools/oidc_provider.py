"""Installs an OpenID Connect provider, from npm into `.tools/oidc`, for tests of signing in."""

from pathlib import Path

from tools import web

PACKAGES = web.ROOT / "tools" / "oidc_packages"
INSTALLED = web.ROOT / ".tools" / "oidc"


def install() -> Path:
    """Install what the lock file names, unless it is installed; the directory with the packages."""
    web.install_copy(PACKAGES, INSTALLED, "the OpenID Connect provider of the tests")
    return INSTALLED


if __name__ == "__main__":
    install()
