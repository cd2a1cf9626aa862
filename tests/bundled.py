"""The bundled campaign: the newest pgstack-* below data/."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CAMPAIGN = sorted(path.parent for path in (ROOT / "data").glob("pgstack-*/plan.toml"))[-1]
