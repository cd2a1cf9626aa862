"""A copy of the project whose campaigns say what an attacker would: markup, scripts and directives wherever text may stand.

Each text has a number, and so has whatever it would do if it were taken for more than text. `Hostile.texts` has them all.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.site.sandbox import PROJECT

PARTS = ("analysis", "book", "notebooks", "runner", "workloads", "_config.yml", "_toc.yml")
MARK = "bbx"  # in everything that a text would bring into a page
CANARY = "canary-of-a-file-that-no-page-includes"

LINES = """<script>bbx(0)</script><img src=x-bbx onerror=bbx(0)> <svg/onload=bbx(0)> <iframe src=javascript:bbx(0)>
</td></script></style></title></textarea>--><script>bbx(0)</script> "><b id=bbx0> '><b id=bbx0> ]]><b id=bbx0>
[a](javascript:bbx(0)) ![b](http://bbx.invalid/0.png) <http://bbx.invalid/0> <a href="javascript:bbx(0)">c</a>
{{ bbx }} $\\href{javascript:bbx(0)}{x}$ \\(x\\) {raw}`html <b id=bbx0>` `d <javascript:bbx(0)>`_ |bbx| **bold-0**
&lt;script&gt;bbx(0)&lt;/script&gt; &#60;img src=x-bbx onerror=bbx(0)&#62; \x1b[31mred\x1b[0m \u202etxet\u202c \x00 end-0
``````

# Heading bbx0

``````{raw} html
<script>bbx(0)</script><b id=bbx0>
``````

```{include} ../../../canary.txt
```

```{include} ../../canary.txt
```

```{eval-rst}
.. raw:: html

   <script>bbx(0)</script>
```

:::{raw} html
<script>bbx(0)</script>
:::

.. raw:: html

   <script>bbx(0)</script>

% hidden-0

+++
(bbx0)=
"""
WORDS = (
    "<script>bbx(0)</script>",
    "<img/src=x-bbx/onerror=bbx(0)>",
    '"><svg/onload=bbx(0)>',
    "[a](javascript:bbx(0))",
    "![b](http://bbx.invalid/0.png)",
    "$\\href{javascript:bbx(0)}{x}$",
    "{raw}`html`<b/id=bbx0>",
    "```{raw}```<!--bbx0-->",
    "</td></script><iframe/src=javascript:bbx(0)>",
    "\u202e%3Cscript%3Ebbx(0)\u202c",
    "'onmouseover='bbx(0)'",
    "&lt;script&gt;bbx(0)",
)
SECRET_FILES = {
    ".netrc": "machine example.org login me password {}\n",
    ".pgpass": "*:*:*:*:{}\n",
    ".gitconfig": "[http]\n\textraHeader = Authorization: {}\n",
    ".config/pip/pip.conf": "[global]\nextra-index-url = https://me:{}@example.org/simple\n",
    ".config/benchbook/notes": "{}\n",
    ".ssh/id_ed25519": "{}\n",
}
SECRET_VARIABLES = {
    "USER_SECRET": "{}",
    "PGPASSWORD": "{}",
    "GITHUB_TOKEN": "{}",
    "AWS_SECRET_ACCESS_KEY": "{}",
    "DATABASE_URL": "postgres://me:{}@127.0.0.1/x",
    "PIP_EXTRA_INDEX_URL": "https://me:{}@example.org/simple",
    "PATH_{}": "a name with it",
}
HARNESS = """
import json, os, sys
with open(os.environ["PASSWORDS"], "a") as file:
    print(os.environ["PGPASSWORD"], file=file)
known = "PATH LANG TZ PYTHONDONTWRITEBYTECODE LC_CTYPE PGUSER PGDATABASE PGPASSWORD PGSSLMODE PGHOST PGPORT TEXT PASSWORDS"
assert set(os.environ) <= set(known.split()), sorted(os.environ)
case, arm, block, repeats, texts = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), json.loads(sys.argv[5])
for number, text in enumerate(texts["lines"]):
    print(f"said{number}: {text}")
print(texts["words"], file=sys.stderr)
if texts["fails"] and (arm, block) == ("two", 2):
    sys.exit(texts["words"])
for repeat in range(repeats):
    pairs = " ".join(f"{1000 + 10 * number + 7 * block + repeat + len(arm)} {unit}" for number, unit in enumerate(texts["units"]))
    print(f"Benchmark{case} 10 {pairs}")
"""


class Hostile:
    """A project with an executed, an adopted and a figures-only campaign; every text of theirs is a payload."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._count = folder, 0
        self.texts: dict[str, str] = {}
        self.secret = secrets.token_hex(16)  # what the user has that starts runner and build, in many places
        for name in PARTS:
            source = PROJECT / name
            if source.is_dir():
                ignore = shutil.ignore_patterns("phases", "_build", "__pycache__")
                shutil.copytree(source, folder / name, symlinks=True, ignore=ignore)
            else:
                shutil.copy(source, folder / name)
        for place in (folder, folder / "book", folder / "book" / "phases"):
            place.mkdir(exist_ok=True)
            (place / "canary.txt").write_text(CANARY)
        self.data = folder / "data"
        self.data.mkdir()
        self.html = folder / "book" / "_build" / "html"
        self.home = folder / f"home-{self.secret}"
        for name, text in SECRET_FILES.items():
            (self.home / name).parent.mkdir(parents=True, exist_ok=True)
            (self.home / name).write_text(text.format(self.secret))

    @property
    def passwords(self) -> list[str]:
        """What the server's password was in each run."""
        return (self.folder / "passwords").read_text().split()

    @property
    def environment(self) -> dict[str, str]:
        """Of a user with secrets: in variables, in files of the home folder, in the name of that folder."""
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        told = {name.format(self.secret): text.format(self.secret) for name, text in SECRET_VARIABLES.items()}
        return kept | told | {"HOME": str(self.home), "BENCHBOOK_CACHE": str(self.folder / ".cache")}

    def number(self, where: str, text: str) -> str:
        """A text with a number of its own in place of its zeros."""
        self._count += 1
        numbered = text.replace("bbx(0)", f"bbx({self._count})").replace("bbx0", f"bbx{self._count}")
        numbered = numbered.replace("-0", f"-{self._count}").replace("/0", f"/{self._count}")
        self.texts[where] = numbered
        return numbered

    def lines(self, where: str, *, control: bool = False) -> str:
        """A payload of several lines; with control characters where no plan would refuse them."""
        return self.number(where, LINES if control else LINES.replace("\x1b", "").replace("\x00", ""))

    def line(self, where: str, *, control: bool = False) -> str:
        """A payload of one line, of what fits there."""
        text = LINES.partition("``````")[0].replace("\n", " ").replace("\x00", "")
        return self.number(where, text if control else text.replace("\x1b", ""))

    def word(self, where: str, kind: int) -> str:
        """A payload without a space."""
        return self.number(where, WORDS[kind % len(WORDS)])

    def python(self, *argv: str, status: int = 0) -> subprocess.CompletedProcess[str]:
        """Run Python in the copied project."""
        command = [sys.executable, *argv]
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == status, done.stdout[-3000:] + done.stderr[-3000:]
        return done

    def build(self) -> subprocess.CompletedProcess[str]:
        """`jupyter-book build book/`."""
        return self.python(str(Path(sys.executable).with_name("jupyter-book")), "build", "book/")


def toml(value: Any) -> str:
    """A value as TOML writes it."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(key, ensure_ascii=False)} = {toml(v)}" for key, v in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, str):  # JSON escapes all but DEL, as TOML wants it
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)


def document(content: dict[str, Any], at: tuple[str, ...] = ()) -> str:
    """A TOML file: a key a line, each table and each part of a list of tables under a heading of its own."""
    lines: list[str] = []
    below: list[str] = []
    for key, value in content.items():
        here = (*at, json.dumps(key, ensure_ascii=False))
        if isinstance(value, dict):
            below += [f"[{'.'.join(here)}]", document(value, here)]
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            below += [part for entry in value for part in (f"[[{'.'.join(here)}]]", document(entry, here))]
        else:
            lines.append(f"{here[-1]} = {toml(value)}")
    return "\n".join([*lines, *below]) + "\n"


def bare(text: str) -> str:
    """Without braces, which stand for fields in commands and environments."""
    return text.replace("{", "").replace("}", "")


def plan(hostile: Hostile, name: str) -> dict[str, Any]:
    """A plan that is valid, and says nothing but payloads."""

    def at(place: str) -> str:
        return f"{name}: {place}"

    cpus = sorted(os.sched_getaffinity(0))
    first = 4 * ("executed", "adopted", "figures").index(name)  # together they have every word
    cases = [hostile.word(at(f"case {i}"), first + i) for i in range(len(WORDS) // 3)]
    units = [hostile.word(at(f"unit {i}"), first + 6 + i) for i in range(3)]
    trees = {
        tree: {"kind": "programs", "what": hostile.lines(at(f"tree {tree}")), "programs": [str(hostile.folder / "tool")],
               "version": [[str(hostile.folder / "tool")]]}
        for tree in ("first", "second")
    }  # fmt: skip
    texts = {
        "lines": [hostile.line(at(f"covariate {i}"), control=True) for i in range(2)],
        "words": hostile.line(at("stderr"), control=True),
        "units": units,
        "fails": True,
    }
    argv = [
        "{python}",
        "-B",
        "-I",
        "{harness}/hostile.py",
        "{case}",
        "{arm}",
        "{block}",
        "{repeats}",
        "{parameters.texts}",
    ]
    argv.append(bare(hostile.line(at("command"))))
    phase = {
        "title": hostile.lines(at("phase title")),
        "question": hostile.lines(at("phase question")),
        "argv": argv,
        "environment": {"TEXT": bare(hostile.line(at("environment")))},
        "blocks": 2,
        "repeats": 2,
        "order_seed": 1,
        "primary_metric": units[0],
        "arms": [
            {"name": arm, "tree": tree, "switches": {"text": hostile.lines(at(f"switch of {arm}"))}}
            for arm, tree in (("one", "first"), ("two", "second"))
        ],
        "metrics": [
            {"unit": unit, "better": "lower", "per": "repeat", "scope": hostile.lines(at(f"scope {i}"))}
            for i, unit in enumerate(units)
        ],
        "contrasts": [{"numerator": "two", "denominator": "one", "what": hostile.lines(at("contrast"))}],
        "holm": {"metrics": [units[0]], "contrasts": ["two/one"]},
        "covariates": [
            {"name": f"said{i}", "expected": "constant", "what": hostile.lines(at(f"what covariate {i}"))} for i in range(2)
        ],
        "cases": [
            {
                "name": case,
                "what": hostile.lines(at(f"what case {i}")),
                "group": hostile.line(at(f"group {i}")),
                "expected_s": 0.1,
                "parameters": {"texts": json.dumps(texts | {"fails": i == 1}), "own": hostile.lines(at(f"parameter {i}"))},
            }
            for i, case in enumerate(cases)
        ],
        "claims": [
            {"id": f"P-{i}", "text": hostile.lines(at(f"claim {i}")), "metric": units[i], "contrast": "two/one",
             "cases": "all" if i else [cases[0]], "holds": "below-1"}
            for i in range(2)
        ],
        "open_questions": [hostile.lines(at("open question"))],
        "limits": [hostile.lines(at("limit"))],
    }  # fmt: skip
    return {
        "format": 1,
        "campaign": {
            "id": name,
            "title": hostile.lines(at("title")),
            "question": hostile.lines(at("question")),
            "payload_seed": 1,
        },
        "statistics": {"primary": "t", "level": 0.95, "resamples": 100, "seed": 1},
        "host": {"cpus": {"housekeeping": f"{cpus[0]}", "server": f"{cpus[0]}", "client": f"{cpus[-1]}"}},
        "network": {"kind": "none"},
        "engine": {"kind": "none"},
        "harness": {"files": ["hostile.py"]},
        "rules": {
            "interruptions": ["runner-killed", "host-down"], "wrong_answer": "go-on", "wrong_answer_exit": 3,
            "run_limit_s": 60, "quiet_wait_s": 0, "busy_block": "mark", "replacement_blocks": 0,
            "checks": {"calibration_ratio": 1000, "idle_load": 1, "steal_share": 1, "swap_pages": 1000000,
                       "oom_kills": 1000, "throttled_periods": 1000},
        },
        "trees": trees,
        "phases": {"P": phase},
    }  # fmt: skip


def executed(hostile: Hostile) -> None:
    """A campaign that is sealed and executed, on a host whose processor and system have payloads for names."""
    tool = hostile.folder / "tool"
    said = hostile.line("version of a program", control=True)
    tool.write_text(f"#!{sys.executable}\nprint({said!r})\n")
    tool.chmod(0o755)
    host = hostile.folder / "runner" / "host.py"
    text = host.read_text()
    for old, what in (('model[1] if model else "unknown"', "processor"), ("_os_name(),", "system")):
        assert text.count(old) == 1
        text = text.replace(old, repr(hostile.lines(what, control=True)) + "," * old.endswith(","))
    host.write_text(text)
    folder = hostile.data / "executed"
    (folder / "harness").mkdir(parents=True)
    (folder / "harness" / "hostile.py").write_text(HARNESS)
    described = plan(hostile, "executed")
    described["network"] = {"kind": "loopback"}
    described["engine"] = {
        "kind": "postgres", "version": "18", "storage": "memory", "authentication": "scram-sha-256",
        "settings": {"fsync": "off", "shared_buffers": "16MB", "max_connections": "10", "io_method": "sync",
                     "cluster_name": hostile.word("setting of the server", 0)},
    }  # fmt: skip
    described["phases"]["P"]["environment"]["PASSWORDS"] = str(hostile.folder / "passwords")
    (folder / "plan.toml").write_text(document(described))
    hostile.python("-m", "runner", "seal", str(folder))
    described["phases"]["P"]["limits"].append(hostile.lines("executed: limit that an amendment added"))
    (folder / "plan.toml").write_text(document(described))
    why = hostile.line("executed: reason of an amendment").replace("\u202e", "").replace("\u202c", "")
    hostile.python("-m", "runner", "amend", str(folder), "--why", why)
    link = hostile.folder / f"link-{hostile.secret}"  # so that the runner's own command line has a secret
    link.symlink_to(hostile.data)
    done = hostile.python("-m", "runner", "run", str(link / "executed"), status=1)  # one run fails, by plan
    assert '"event":"close"' in (folder / "journal.jsonl").read_text(), done.stderr


def adopted(hostile: Hostile) -> None:
    """Logs from elsewhere under names and a plan full of payloads, with the record of a host; paired, and unpaired."""
    source = hostile.folder / hostile.number("adopted: folder", "logs<b id=bbx0>`x`")
    described = plan(hostile, "adopted")
    phase = described["phases"]["P"]
    described["phases"]["U"] = {**phase, "title": hostile.lines("adopted: title of the unpaired phase"), "claims": []}
    cases = [case["name"] for case in phase["cases"]]
    units = [metric["unit"] for metric in phase["metrics"]]
    below = hostile.number("adopted: name of a folder", "in <img src=x-bbx onerror=bbx(0)> `html` [a](x)")
    said = hostile.line("adopted: said by logs", control=True)
    for number, arm in enumerate(("one", "two")):
        for block in (1, 2):
            texts = []
            for place, case in enumerate(cases):
                pairs = " ".join(f"{900 + 50 * number + 9 * block + place} {unit}" for unit in units)
                texts.append(f"said: {said}\nBenchmark{case} 10 {pairs}\n" * 2)
                if (place, arm, block) == (1, "two", 2):
                    texts[-1] = f"said: {said}\npanic: {said}\n"
                where = source / below / str(place) / f"{block}-{arm}.txt"
                where.parent.mkdir(parents=True, exist_ok=True)
                where.write_text(texts[-1])
            texts[1] = ""
            (source / f"{arm}{block}.txt").write_text("".join(texts))
    record = json.loads((hostile.data / "executed" / "host.json").read_text())
    record["identity"]["cpu_model"] = hostile.lines("adopted: processor", control=True)
    record["details"]["governor"] = hostile.lines("adopted: governor", control=True)
    (source / "host.json").write_text(json.dumps(record))
    left_out = hostile.number("adopted: file left out", "left <svg onload=bbx(0)>.log")
    (source / left_out).write_text("x")
    folder = hostile.data / "adopted"
    folder.mkdir()
    (folder / "plan.toml").write_text(document(described))
    maps = [f"{below}/{place}/{{block}}-{{arm}}.txt:phase=P" for place in range(len(cases))]
    maps += [f"{arm}{block}.txt:phase=U,arm={arm}" for arm in ("one", "two") for block in (1, 2)]
    arguments = [part for text in (*maps, "host.json:as=host") for part in ("--map", text)]
    command = ["-m", "runner", "adopt", str(source), "--into", str(folder), *arguments, "--ignore", "left*"]
    hostile.python(*command)


def figures(hostile: Hostile) -> None:
    """Figures that others published, without logs."""
    described = plan(hostile, "figures")
    phase = described["phases"]["P"]
    cases = [case["name"] for case in phase["cases"]]
    word = hostile.line("figures: word for a unit")

    def lines(place: str) -> str:
        return hostile.lines(place, control=True)

    published = {
        "units": {word: phase["metrics"][0]["unit"]},
        "campaign": {
            "id": "figures",
            **{key: lines(f"figures: {key}") for key in ("host", "server", "network", "go", "source", "harness")},
            "engine": {hostile.line("figures: key of the engine"): lines("figures: engine")},
            "bootstrap": {"method": lines("figures: method")},
        },
        "designs": {"P": {key: lines(f"figures: {key}") for key in
                          ("source", "read_benchtime", "write_benchtime", "user_keys_cleared")}
                    | {key: [lines(f"figures: {key}")] for key in ("metrics", "checks")}},
        "estimates": [
            {"phase": "P", "contrast": "two/one", "metric": word, "case": case, "ratio": 0.9 + place / 100,
             "text": lines(f"figures: text {place}"), "note": lines(f"figures: note {place}"), "one_us": 2.5}
            | ({"ci": [0.5, 1.5]} if place % 2 else {})
            for place, case in enumerate(cases)
        ],
        "remarks": [{"phase": "P", "text": lines("figures: remark")},
                    {"phase": "P", "text": "not explained " + lines("figures: open remark")}],
    }  # fmt: skip
    folder = hostile.data / "figures"
    folder.mkdir()
    (folder / "plan.toml").write_text(document(described))
    (folder / "published.toml").write_text(document(published))
