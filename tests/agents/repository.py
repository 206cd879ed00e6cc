"""Git repositories for the tests of agents."""

import subprocess
from pathlib import Path


def git(where: Path, *arguments: str) -> str:
    who = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
    done = subprocess.run(
        ["git", *who, "-C", str(where), *arguments], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def make_repository(where: Path, files: dict[str, str]) -> Path:
    """A repository with one commit on the branch main, which is checked out."""
    where.mkdir(parents=True)
    git(where, "init", "--quiet", "--initial-branch", "main")
    commit(where, files, "first")
    return where


def commit(where: Path, files: dict[str, str], message: str) -> str:
    """Commit files; the id of the commit."""
    for name, content in files.items():
        (where / name).write_text(content)
    git(where, "add", "--all")
    git(where, "commit", "--quiet", "--message", message)
    return git(where, "rev-parse", "HEAD")
