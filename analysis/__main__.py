"""Command line of the analysis. Results go to standard output, what is under way to standard error.

Exit status: 0 done; 1 what was checked does not hold; 2 wrong use.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from analysis import exports
from analysis.labels import check_labels
from analysis.report import assert_phase, assert_raw_logs, find_campaign, open_report
from analysis.tables import STATUS_WORDS
from runner.errors import BenchbookError

CAMPAIGN = click.argument("campaign", type=click.Path(path_type=Path, file_okay=False))


def shows_errors(command: Callable[..., int | None]) -> Callable[..., None]:
    """Show our own errors as messages, and turn a command's result into the exit status."""

    @wraps(command)
    def wrapper(*args: Any, **kwargs: Any) -> None:
        try:
            sys.exit(command(*args, **kwargs) or 0)
        except BenchbookError as error:
            click.echo(f"error: {error}", err=True)
            sys.exit(error.exit_code)

    return wrapper


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Raw logs to labels, estimates, claims and pages. CAMPAIGN is the folder of a campaign."""


@main.command()
@CAMPAIGN
@click.option("--phase", required=True, help="The phase to estimate.")
@click.option("--seed", type=click.IntRange(min=0), help="Seed of the bootstrap; the plan's when not given.")
@click.option(
    "--resamples", type=click.IntRange(100, 10_000_000), help="Resamples of the bootstrap; the plan's when not given."
)
@click.option("--format", "form", type=click.Choice(["json", "csv", "md"]), default="md", show_default=True)
@shows_errors
def estimates(campaign: Path, phase: str, seed: int | None, resamples: int | None, form: str) -> None:
    """Every estimate of a phase, recomputed from its raw logs."""
    report = open_report(campaign, phase, seed, resamples)
    click.echo(exports.FORMATS[form](report), nl=False)


@main.command()
@CAMPAIGN
@shows_errors
def labels(campaign: Path) -> int:
    """Rebuild every label from the sealed plan and the per-run logs, and assert it."""
    store = find_campaign(campaign)
    assert_raw_logs(store)
    report = check_labels(store, store.plan())
    for problem in report.problems:
        click.echo(f"problem: {problem}")
    click.echo(report.sentence())
    return 0 if report.hold else 1


@main.command()
@CAMPAIGN
@click.option("--phase", help="Only this phase.")
@shows_errors
def claims(campaign: Path, phase: str | None) -> None:
    """Every preregistered claim with its status and the numbers that decide it."""
    plan = find_campaign(campaign).plan()
    if phase is not None:
        assert_phase(plan, phase)
    for name in plan.phases:
        if phase in (None, name):
            for claim in open_report(campaign, name).claims:
                click.echo(
                    f"{name} {claim.id}: {STATUS_WORDS[claim.status]}\n  claim: {claim.text}\n  why: {claim.reason}"
                )


@main.command()
@CAMPAIGN
@click.option("--phase", required=True, help="The phase to account for.")
@shows_errors
def times(campaign: Path, phase: str) -> None:
    """Where the wall time of a phase went, and the runner's own share of it."""
    found = open_report(campaign, phase).times
    for name, seconds in found.parts().items():
        click.echo(f"{name:<12} {seconds:9.2f} s")
    click.echo(f"runner's own remainder over process time: {found.share:.2%}")


@main.command()
@click.argument("campaign", type=click.Path(path_type=Path, file_okay=False), required=False)
@click.option("--phase", help="Only this phase.")
@click.option("--seed", type=click.IntRange(min=0), help="Seed of the bootstrap; the plan's when not given.")
@shows_errors
def render(campaign: Path | None, phase: str | None, seed: int | None) -> None:
    """Write the pages of a campaign into the book; of every campaign below data/ when none is given."""
    from analysis import rendering

    stores = [find_campaign(campaign)] if campaign else rendering.campaigns()
    rendering.render(stores, lambda text: click.echo(text, err=True), phase=phase, seed=seed)


if __name__ == "__main__":
    main(prog_name="python -m analysis")
