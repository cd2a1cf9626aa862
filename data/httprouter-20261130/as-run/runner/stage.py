"""What surrounds the runs of a phase: network, engine, fixture. Made anew for each phase, gone after it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager

from runner import benchfmt, delay, engines, host, network, process, treekinds
from runner.engines import Engine
from runner.errors import Refused
from runner.journal import Journal
from runner.network import Ends
from runner.plan import Fixture, Plan
from runner.plantrees import Tree
from runner.store import PARTIAL, Store
from runner.templates import each, fill
from runner.treekinds import AnyBuilt

INHERITED = {
    "PATH": process.RUN_PATH,
    "LANG": "C.UTF-8",
    "TZ": "UTC",
    "PYTHONDONTWRITEBYTECODE": "1",  # nothing is to appear beside the sealed harness or inside a tree
}


def places_of(store: Store, tree: Tree, built: AnyBuilt) -> dict[str, str]:
    """Where a process of a tree finds its interpreter or binary, and the harness."""
    return treekinds.places(tree, built.folder) | {"harness": str(store.harness_folder)}


class Stage:
    """A phase's network and engine at work."""

    def __init__(
        self,
        store: Store,
        plan: Plan,
        phase: str,
        trees: dict[str, AnyBuilt],
        ends: Ends,
        engine: Engine,
        journal: Journal,
    ) -> None:
        self.ends, self.engine = ends, engine
        self._store, self._plan, self._phase, self._trees, self._journal = store, plan, phase, trees, journal

    def begin(self) -> None:
        """Record what was started, and make the fixture."""
        added = self.ends.delay
        self._journal.append(
            "engine-start",
            phase=self._phase,
            network=self.ends.kind,
            **({"delay": added.facts()} if added else {}),
            health=self.engine.health(),
        )
        self._make_fixture()

    def restart(self, reason: str) -> None:
        """Start the engine again, empty, and make the fixture again."""
        self.engine.restart()
        self._journal.append("engine-restart", reason=reason, health=self.engine.health())
        self._make_fixture()

    def rtt(self) -> dict[str, list[int]]:
        """Round-trip times in ns for the journal, where the plan adds a delay; each costs time and load."""
        return {"rtt_ns": delay.measure_rtt(self.ends)} if self.ends.delay else {}

    def _make_fixture(self) -> None:
        name = self._plan.phases[self._phase].fixture
        if name is None:
            return
        fixture = self._plan.fixtures[name]
        self.engine.reset()
        places = places_of(self._store, self._plan.trees[fixture.tree], self._trees[fixture.tree])
        argv, environment = fixture_command(self._plan, fixture, places)
        # The next session sweeps them away, when this one is killed before it could.
        stdout, stderr = (self._store.folder / f".fixture-{name}{PARTIAL}" for name in ("stdout", "stderr"))
        try:
            ended = process.execute(
                [*self.ends.client, *process.pinned(self._plan.host.cpus.client), *argv],
                INHERITED | self.engine.environment | environment,
                stdout,
                stderr,
                self._plan.rules.run_limit_s,
            )
            output, last = stdout.read_bytes(), stderr.read_text(errors="replace").strip().splitlines()[-1:]
        finally:
            stdout.unlink(missing_ok=True)
            stderr.unlink(missing_ok=True)
        if ended.status != 0:
            how = "no end within rules.run_limit_s" if ended.timed_out else ended.signal or f"status {ended.status}"
            raise Refused(
                f"phase {self._phase}: fixture {name}",
                "it could not be made",
                expected="exit status 0",
                found="; ".join([how, *last]),
                remedy="mend the fixture's argv or parameters in a new plan; no run has been touched",
            )
        self.engine.keep_fixture()
        self._journal.append(
            "fixture",
            phase=self._phase,
            name=name,
            wall_ns=ended.wall_ns,
            stdout_sha256=hashlib.sha256(output).hexdigest(),
            configuration=benchfmt.parse(output).configuration,
        )


def fixture_command(plan: Plan, fixture: Fixture, places: dict[str, str]) -> tuple[list[str], dict[str, str]]:
    """Command and environment that make a fixture, from the plan's templates."""
    parameters = {"payload_seed": plan.campaign.payload_seed, **fixture.parameters}
    fields = {
        **places,
        "client_cpus_count": str(len(host.parse_cpus(plan.host.cpus.client))),
        "parameters": json.dumps(parameters, sort_keys=True),
        **each("parameters", parameters),
    }
    return (
        [fill(part, fields) for part in fixture.argv],
        {key: fill(value, fields) for key, value in fixture.environment.items()},
    )


@contextmanager
def open_stage(store: Store, plan: Plan, phase: str, trees: dict[str, AnyBuilt], journal: Journal) -> Iterator[Stage]:
    """Start network and engine as a phase has them, and stop both at the end."""
    cpus = plan.host.cpus
    with (
        network.open_ends(plan.network_of(phase), cpus) as ends,
        engines.open_engine(plan.engine_of(phase), ends, cpus.server) as engine,
    ):
        stage = Stage(store, plan, phase, trees, ends, engine, journal)
        stage.begin()
        yield stage
