"""The bundled campaign: the newest pgstack-* below data/."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CAMPAIGN = sorted((ROOT / "data").glob("pgstack-*"))[-1]
