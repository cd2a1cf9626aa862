"""Who imports whom, read from the source itself; and what no file may call."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parent.parent
FOLDERS = {name: sorted((PROJECT / name).rglob("*.py")) for name in ("runner", "analysis", "workloads")}
SOURCES = [path for paths in FOLDERS.values() for path in paths]
FROM_RUNNER = {
    "plan",
    "plantypes",
    "seal",
    "store",
    "benchfmt",
    "rawlog",
    "errors",
}  # what analysis may know of the runner
HEAVY = {"numpy", "pandas", "scipy", "matplotlib", "papermill", "nbformat"}  # the pinned host does without
UNSAFE_MODULES = {"pickle", "_pickle", "cPickle", "marshal", "shelve", "dill", "joblib", "cloudpickle", "code", "pty"}
UNSAFE_METHODS = {"extractall", "read_pickle", "to_pickle", "unsafe_load"}  # of whatever they are called on
UNSAFE_CALLS = {"eval", "exec", "compile", "__import__", "os.system", "os.popen", "os.spawnl", "os.spawnv"} | {
    "subprocess.getoutput", "subprocess.getstatusoutput", "asyncio.create_subprocess_shell", "tarfile.extractall",
    "pandas.read_pickle", "pd.read_pickle", "yaml.load",
}  # fmt: skip


def imports(tree: ast.AST, package: str = "") -> Iterator[str]:
    """Dotted names of everything that is imported, also inside functions: `a.b` for `from a import b`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package if node.level else ""
            module = ".".join(filter(None, (base, node.module or "")))
            yield from (f"{module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "import_module":
            first = node.args[0]
            yield first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else "dynamic"


def of_file(path: Path) -> list[str]:
    return list(imports(ast.parse(path.read_text(encoding="utf-8")), path.parent.name))


def top(name: str) -> str:
    return name.split(".")[0]


def shown(path: Path) -> str:
    return path.relative_to(PROJECT).as_posix()


def test_there_is_something_to_read() -> None:
    assert all(len(paths) > 1 for name, paths in FOLDERS.items() if name != "workloads")
    assert FOLDERS["workloads"]
    assert {"a.b", "c", "pkg.d", "pkg.e.f", "g"} == set(
        imports(
            ast.parse(
                "from a import b\ndef x():\n import c\n from . import d\n from .e import f\nimportlib.import_module('g')"
            ),
            "pkg",
        )
    )


@pytest.mark.parametrize("path", FOLDERS["runner"], ids=shown)
def test_runner_is_light_and_knows_no_analysis(path: Path) -> None:
    assert not {top(name) for name in of_file(path)} & (HEAVY | {"analysis", "workloads", "notebooks", "book", "tests"})


def test_no_part_of_the_runner_brings_in_anything_heavy() -> None:
    """Not by another package's way either."""
    import subprocess
    import sys

    modules = [".".join(path.relative_to(PROJECT).with_suffix("").parts) for path in FOLDERS["runner"]]
    code = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)\nprint(*sys.modules)"
    names = [name.removesuffix(".__init__") for name in modules if not name.endswith("__main__")]
    done = subprocess.run([sys.executable, "-c", code, *names], cwd=PROJECT, capture_output=True, text=True, check=True)
    assert not {top(name) for name in done.stdout.split()} & (HEAVY | {"analysis", "workloads"})


@pytest.mark.parametrize("path", FOLDERS["analysis"], ids=shown)
def test_analysis_knows_plan_seal_store_and_log_formats_alone(path: Path) -> None:
    found = of_file(path)
    assert {name.split(".")[1] for name in found if top(name) == "runner"} <= FROM_RUNNER
    assert not {top(name) for name in found} & {"workloads", "notebooks", "book", "tests"}


@pytest.mark.parametrize("path", FOLDERS["workloads"], ids=shown)
def test_workloads_know_neither(path: Path) -> None:
    assert not {top(name) for name in of_file(path)} & {"runner", "analysis", "notebooks", "book", "tests"}


@pytest.mark.parametrize("path", sorted((PROJECT / "notebooks").glob("*.ipynb")), ids=shown)
def test_notebooks_know_analysis_alone(path: Path) -> None:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    assert not any(cell.get("outputs") for cell in cells)
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    found = {top(name) for source in sources for name in imports(ast.parse(source))}
    assert "analysis" in found
    assert not found & {"runner", "workloads", "book", "tests"}


def unsafe(source: str, package: str = "") -> list[str]:
    """What in a source starts a shell, or takes data for code."""
    found: list[str] = []
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            bad = name in UNSAFE_CALLS or (isinstance(node.func, ast.Attribute) and node.func.attr in UNSAFE_METHODS)
            found += [f"line {node.lineno}: {name}"] * bad
            for keyword in node.keywords:
                given = keyword.value.value if isinstance(keyword.value, ast.Constant) else "not a constant"
                if keyword.arg in ("shell", "allow_pickle") and given is not False:
                    found.append(f"line {node.lineno}: {keyword.arg}={given}")
            arguments = {
                arg.value for arg in ast.walk(node) if isinstance(arg, ast.Constant) and isinstance(arg.value, str)
            }
            if arguments & {"sh", "bash", "/bin/sh", "/bin/bash", "/usr/bin/bash"}:
                found.append(f"line {node.lineno}: a shell by name")
    used = imports(tree, package)
    return found + [f"imports {name}" for name in used if top(name) in UNSAFE_MODULES or name in UNSAFE_CALLS]


EXTENSION = sorted((PROJECT / "book").glob("_ext/*.py"))


@pytest.mark.parametrize("path", [*SOURCES, *EXTENSION], ids=shown)
def test_nothing_starts_a_shell_or_executes_data(path: Path) -> None:
    """Read from the source: no shell, no eval, no unpickling in runner, analysis, workloads and the book's extension."""
    assert unsafe(path.read_text(encoding="utf-8"), path.parent.name) == []


@pytest.mark.parametrize("path", sorted((PROJECT / "notebooks").glob("*.ipynb")), ids=shown)
def test_no_notebook_starts_a_shell_or_executes_data(path: Path) -> None:
    """The same of every cell of every notebook; a line that IPython would hand to a shell is no Python, and fails."""
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            assert unsafe("".join(cell["source"])) == []


def test_the_guard_finds_what_it_looks_for() -> None:
    for source in (
        "import os\nos.system('x')",
        "from os import system",
        "import subprocess\nsubprocess.run('x', shell=True)",
        "import subprocess\nsubprocess.run('x', shell=flag)",
        "import subprocess\nsubprocess.run(['sh', '-c', 'x'])",
        "import pickle",
        "def f():\n    from marshal import loads",
        "eval('1')",
        "numpy.load(path, allow_pickle=True)",
        "numpy.load(path, allow_pickle=flag)",
        "pandas.read_pickle(path)",
        "yaml.load(text)",
        "import shelve",
        "compile(text, '', 'exec')",
        "tarfile.open(path).extractall(folder)",
    ):
        assert unsafe(source), source
    assert EXTENSION
