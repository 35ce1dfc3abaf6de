"""What is known of the rows of any board beside their results."""

from __future__ import annotations

from dataclasses import dataclass

from gsnobench.boards.evidence import Installation
from gsnobench.boards.reproduction.paper import PaperNumbers
from gsnobench.registry import Registry, Track

NO_TRACK = Track("")  # of results whose track the registry does not know


@dataclass(frozen=True)
class Declared:
    """Registry, paper and installed plugins."""

    registry: Registry
    paper: PaperNumbers
    here: Installation

    def track(self, name: str) -> Track:
        return self.registry.tracks.get(name, NO_TRACK)
