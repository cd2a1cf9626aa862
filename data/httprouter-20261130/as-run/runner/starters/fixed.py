"""The templates `python` and `client`: nothing in them depends on what the user gives."""

from __future__ import annotations

from pathlib import Path

from runner.starters import Starter, filled, python_version, seed_of, text_of

LOCK = """# A requirements file with hashes; nothing but comments is the standard library alone. Write it with
# uv pip compile --generate-hashes, and keep one version of each package.
"""


def python(folder: Path) -> Starter:
    """Two sets of packages and one function."""
    return _two_sets(folder, "python.toml", "measure.py", "Two functions", "Which function makes the text sooner?")


def client(folder: Path) -> Starter:
    """Two sets of packages and one closed-loop client."""
    return _two_sets(
        folder, "client.toml", "client.py", "One client", "Does the client answer sooner with the packages of after?"
    )


def _two_sets(folder: Path, plan: str, harness: str, title: str, question: str) -> Starter:
    fields = {"seed": seed_of(folder.name), "python": python_version(), "id": folder.name}
    locks = {f"trees/{name}.txt": LOCK for name in ("before", "after")}
    return Starter(filled(plan, fields), {harness: text_of(harness)}, locks, title, question)
