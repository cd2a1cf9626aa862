"""Command line of the runner. Progress goes to standard error, results to standard output.

Exit status: 0 done; 1 what was checked does not hold, or a run failed; 2 wrong use.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from runner import adopt as adopting
from runner import amend as amending
from runner import check as checking
from runner import close as closing
from runner import conform as conforming
from runner import execute, ledger, new, protocol, schedule, seal, starters, verify_amended
from runner import verify as verifying
from runner.errors import BenchbookError, WrongUse, os_error
from runner.journal import Journal
from runner.journal import read as read_journal
from runner.progress import Progress
from runner.starters import options as starting
from runner.store import Store

CAMPAIGN = click.argument("campaign", type=click.Path(path_type=Path, file_okay=False, exists=True))
NEW_CAMPAIGN = click.argument("campaign", type=click.Path(path_type=Path, file_okay=False))


def shows_errors(command: Callable[..., int | None]) -> Callable[..., None]:
    """Show our own errors as messages, and turn a command's result into the exit status."""

    @wraps(command)
    def wrapper(*args: Any, **kwargs: Any) -> None:
        try:
            sys.exit(command(*args, **kwargs) or 0)
        except BenchbookError as error:
            click.echo(f"error: {error}", err=True)
            sys.exit(error.exit_code)
        except OSError as error:  # a full disk, a folder that may not be written to
            click.echo(f"error: {os_error(error)}", err=True)
            sys.exit(1)
        except KeyboardInterrupt:
            click.echo("interrupted; `run` goes on from here by the plan's rules", err=True)
            sys.exit(1)

    return wrapper


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Plans, seals and executes benchmark campaigns. CAMPAIGN is a folder with a plan.toml in it."""


@main.command()
@CAMPAIGN
@click.option(
    "--sd", type=click.FloatRange(0, 10, min_open=True), help="Standard deviation of block log ratios: 0.03 is 3%."
)
@click.option(
    "--pilot",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Estimates of an earlier campaign, as JSON, to take the standard deviation from, case by case.",
)
@click.option("--power", "ratio", type=float, help="A ratio, such as 1.02: how many blocks find it with power .8?")
@shows_errors
def plan(campaign: Path, sd: float | None, pilot: Path | None, ratio: float | None) -> None:
    """Show the schedule: orders, residual drift bias, length, detectable effect."""
    store = Store.open(campaign)
    if store.state() == "adopted":
        seal.assert_executed_here(store, "plan")
    described = store.plan()
    wanted = schedule.asked(sd, pilot, ratio)
    if store.brought:
        click.echo(schedule.describe_open(described, wanted), nl=False)
        return
    click.echo(schedule.describe(described, wanted, seal.amended_orders(store)), nl=False)


@main.command(name="new")
@NEW_CAMPAIGN
@click.option(
    "--from",
    "source",
    type=click.Path(path_type=Path, file_okay=False),
    help="Campaign whose plan is shortened, as its [short] table says, for this host.",
)
@click.option(
    "--template", type=click.Choice(list(starting.OPTIONS)), help="A commented plan and the smallest harness."
)
@click.option("--command", multiple=True, help="command: what is timed, split into words, without a shell. Twice.")
@click.option("--name", multiple=True, help="command: a name for each, in the same order.")
@click.option("--repository", help="go-test: URL or path of a git repository.")
@click.option("--before", help="go-test: branch, tag or commit that is compared with.")
@click.option("--after", help="go-test: branch, tag or commit that is compared.")
@click.option("--package", help="go-test: the one package that is built, such as ./codec.  [default: .]")
@click.option("--bench", multiple=True, help="go-test: a benchmark; several times for several. All, when left out.")
@shows_errors
def new_command(campaign: Path, source: Path | None, template: str | None, **given: Any) -> None:
    """Write a plan for this host: a shortened copy of another campaign's, or one to start from."""
    options = starting.Given(**given)
    if (source is None) == (template is None):
        raise WrongUse(
            "new",
            "one of --from and --template says where the plan comes from",
            expected=f"--from CAMPAIGN, or --template {'|'.join(starting.OPTIONS)}",
            found="none" if source is None else "both",
            remedy=f"python -m runner new {campaign} --template command",
        )
    if source is not None:
        starting.assert_options("--from", (), options)
        click.echo(str(new.new_from(Store.open(source), campaign).plan_path))
        return
    assert template is not None
    campaign = campaign.resolve()  # its name is the campaign's id, also where it is given as "."
    starter = starting.starter(campaign, template, options)
    store = starters.write(campaign, starter)
    for note in starter.notes:
        click.echo(f"note: {note}", err=True)
    click.echo(f"next: read the plan, then python -m runner seal {store.shown()}", err=True)
    click.echo(str(store.plan_path))


@main.command(name="adopt")
@click.argument("source", metavar="DIR", type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.option(
    "--into", "campaign", required=True, metavar="CAMPAIGN", type=click.Path(path_type=Path, file_okay=False),
    help="A folder with a plan.toml, or a new one.",
)  # fmt: skip
@click.option("--map", "maps", required=True, multiple=True, help="PATTERN[:key=value,...]: which run a file is of.")
@click.option("--ignore", multiple=True, metavar="GLOB", help="Leave out the files of this name; recorded.")
@click.option(
    "--contrast", "contrasts", multiple=True, metavar="NEW/OLD", help="Of a new plan; by default last/first arm."
)
@shows_errors
def adopt_command(
    source: Path, campaign: Path, maps: tuple[str, ...], ignore: tuple[str, ...], contrasts: tuple[str, ...]
) -> None:
    """Take in logs that were made elsewhere; recorded as adopted, not executed.

    DIR is a folder of Go benchmark outputs or CSV files; its files are copied as they are.
    """
    adoption = adopting.adopt(campaign, adopting.asked(source, maps, ignore, contrasts))
    for line in adopting.summary(adoption):
        click.echo(line)
    click.echo(adoption.digest)


@main.command(name="seal")
@CAMPAIGN
@shows_errors
def seal_command(campaign: Path) -> None:
    """Write the seal; refused once a run has started. Prints the seal's digest."""
    sealed = seal.write(Store.open(campaign), lambda text: click.echo(text, err=True))
    click.echo(sealed.digest)


@main.command(name="amend")
@CAMPAIGN
@click.option("--why", required=True, help="The reason, in a sentence: kept, and shown on the pages.")
@shows_errors
def amend_command(campaign: Path, why: str) -> None:
    """Change a sealed plan in the open: edit plan.toml, then say why. Prints the digest of the new seal.

    The earlier version is kept below protocol/. What runs that were made rest on stays as it was sealed.
    """
    click.echo(amending.amend(Store.open(campaign), why, lambda text: click.echo(text, err=True)))


@main.command()
@CAMPAIGN
@click.option("--dry-run", is_flag=True, help="Print every command that would be executed, and execute none.")
@shows_errors
def check(campaign: Path, dry_run: bool) -> int:
    """Is everything here: host, network, engine, trees, seal? Says why not."""
    store = Store.open(campaign)
    if store.state() == "adopted":
        seal.assert_executed_here(store, "check")
    described = store.plan()
    if store.brought:
        for line in checking.open_commands(described) if dry_run else checking.left_open(store):
            click.echo(line)
        return 0
    if dry_run:
        for line in checking.commands(store, described):
            click.echo(line)
        return 0
    failed = 0
    for what, problem in checking.problems(store, described, warn=lambda text: click.echo(f"warning: {text}")):
        failed += bool(problem)
        click.echo(f"{what}: {problem or 'ready'}")
    return 1 if failed else 0


@main.command()
@CAMPAIGN
@click.option("--phase", help="Only this phase.")
@shows_errors
def run(campaign: Path, phase: str | None) -> int:
    """Execute what is outstanding; goes on by itself after an interruption, and closes when all is done."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    return 1 if execute.execute(Store.open(campaign), Progress(), phase) else 0


@main.command()
@CAMPAIGN
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@shows_errors
def status(campaign: Path, as_json: bool) -> None:
    """How many runs are planned, done, failed, void, outstanding. Never a result."""
    store = Store.open(campaign)
    if store.brought:
        found = adopting.status(store)
        for line in [json.dumps(found, indent=1)] if as_json else adopting.status_lines(found):
            click.echo(line)
        return
    if not store.orders_path.exists():
        click.echo(json.dumps({"state": "draft"}) if as_json else "draft: not sealed yet")
        return
    events = read_journal(store.journal_path).events
    state = ledger.fold(store.orders(), events)
    half = protocol.pending(store, events)
    amended = seal.amendments(store) if half is None else ()
    found = execute.summary(state) | {
        "amendments": [
            {"number": entry.number, "when": entry.when, "why": entry.why, "runs_before": len(entry.before)}
            for entry in amended
        ]
    }
    if as_json:
        click.echo(json.dumps(found, indent=1))
        return
    click.echo("closed" if found["closed"] else "running" if state.started else "sealed")
    for name, count in found["runs"].items():
        click.echo(f"{name:<12} {count:>6}")
    click.echo(f"{'void blocks':<12} {found['void_blocks']:>6}")
    click.echo(f"{'outstanding':<12} {found['outstanding_blocks']:>6} blocks")
    for name, reason in found["stopped_phases"].items():
        click.echo(f"phase {name} stopped: {reason}")
    for entry in amended:
        click.echo(verify_amended.words(entry, len(entry.before)))
    if half is not None:
        click.echo(
            f"amendment {half['amendment']} is recorded and half done; the next `run` or `amend` brings it to its end"
        )


@main.command()
@CAMPAIGN
@shows_errors
def close(campaign: Path) -> None:
    """Write the last journal line and the manifest; `run` does it when all is done."""
    store = Store.open(campaign)
    seal.assert_executed_here(store, "close")
    seal.read(store)  # before the journal is opened, which a draft has none of
    with Journal(store.journal_path) as journal:
        described = protocol.settled(store, journal)
        seal.assert_unchanged(store, described, journal.events)
        state = ledger.fold(store.orders(), journal.events)
        if not state.closed and not state.outstanding():
            verifying.assert_as_recorded(store, described, state, journal.events)
        closing.close(store, described, journal, state)
    click.echo(str(store.manifest_path))


@main.command()
@CAMPAIGN
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@shows_errors
def verify(campaign: Path, as_json: bool) -> int:
    """Check every digest, the chain, the seal and the labels. Exit status 0 if all hold, else 1."""
    report = verifying.verify(Store.open(campaign))
    if as_json:
        click.echo(json.dumps(vars(report), indent=1))
        return 1 if report.problems else 0
    for text in report.problems:
        click.echo(f"problem: {text}")
    for what, names in report.deviations.items():
        then = "adopted" if report.state == "adopted" else "sealed"
        click.echo(f"deviation: {what} differs today from what was {then}: {', '.join(names)}")
    for text in report.notes:
        click.echo(f"note: {text}")
    record = "adoption" if report.state == "adopted" else "seal"
    click.echo(
        f"{report.state}, {report.files} files, {record} {report.seal_digest or 'none'}: "
        f"{len(report.problems) or 'no'} problem{'s' * (len(report.problems) != 1)}"
    )
    return 1 if report.problems else 0


@main.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--case", default="get100", show_default=True, help="The case that the client is asked to measure.")
@click.option("--parameters", default="{}", help="A JSON object; the four that every client has need not be given.")
@click.option("--switches", default="{}", help="A JSON object.")
@click.option("--repeats", default=2, show_default=True, type=click.IntRange(1, 1000), help="Repeats of each process.")
@click.option(
    "--before", default="", help="A command to execute before each process, such as one that empties a database."
)
@click.option("--limit-s", default=60.0, show_default=True, type=click.FloatRange(0.1), help="Time limit of a process.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="[--] CMD...")
@shows_errors
def conform(
    case: str,
    parameters: str,
    switches: str,
    repeats: int,
    before: str,
    limit_s: float,
    as_json: bool,
    command: tuple[str, ...],
) -> int:
    """Check a closed-loop client against its contract. Exit status 0 if every rule that was checked holds, else 1."""
    wanted = conforming.asked(case, parameters, switches, repeats)
    evidence = conforming.gather(
        command, wanted, limit_s, conforming.words(before), lambda text: click.echo(text, err=True)
    )
    verdicts = conforming.judge(evidence)
    if as_json:
        click.echo(json.dumps([verdict.plain() for verdict in verdicts], indent=1))
    else:
        for line in (line for verdict in verdicts for line in verdict.lines()):
            click.echo(line)
        click.echo(conforming.summary(verdicts))
    return 1 if any(verdict.state == conforming.BROKEN for verdict in verdicts) else 0


if __name__ == "__main__":
    main(prog_name="python -m runner")
