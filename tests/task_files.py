"""Task files in the form of InfiAgent-DABench: three questions of the demo's penguins, and their answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PENGUINS = ROOT / "nbagent" / "faces" / "demo" / "penguins.csv"
QUESTIONS: list[dict[str, Any]] = [
    {
        "id": 0,
        "question": "How many penguins are there, and of how many species?",
        "concepts": ["Summary Statistics"],
        "constraints": "Count every row.",
        "format": '@rows[n] @species[n] where "n" is a whole number.',
        "file_name": "penguins.csv",
        "level": "easy",
    },
    {
        "id": 1,
        "question": "What is the mean bill length of the Gentoo penguins?",
        "concepts": ["Summary Statistics", "Feature Engineering"],
        "constraints": "Leave out what was not measured.\nRound to two decimal places.",
        "format": "@mean_bill[mm]",
        "file_name": "penguins.csv",
        "level": "hard",
    },
    {
        "id": 2,
        "question": "Which island has most Gentoo penguins?",
        "concepts": ["Outlier Detection"],
        "constraints": "",
        "format": "@island[name]",
        "file_name": "penguins.csv",
        "level": "easy",
    },
]
LABELS: list[dict[str, Any]] = [
    {"id": 0, "common_answers": [["rows", "344"], ["species", "3"]]},
    {"id": 1, "common_answers": [["mean_bill", "47.50"]]},
    {"id": 2, "common_answers": [["island", "Biscoe"]]},
]


def lines(path: Path, *rows: Any) -> Path:
    """Write JSON Lines; strings as they are."""
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows))
    return path
