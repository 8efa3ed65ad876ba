"""What a driver on another host needs besides its options: the scenario and the files it names."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from leadline.load.scenario import read_scenario
from leadline.model.errors import UsageError


def scenario_files(scenario: Path) -> dict[str, Path]:
    """Name there -> file here, the scenario first. Raises UsageError for a feed that cannot be sent along."""
    files = {scenario.name: scenario}
    feeds = read_scenario(scenario).get("feeds")
    for name, feed in (feeds if isinstance(feeds, dict) else {}).items():
        csv = feed.get("csv") if isinstance(feed, dict) else None
        if csv is None:
            continue
        place = PurePosixPath(str(csv))
        if "${" in str(csv) or place.is_absolute() or ".." in place.parts:
            raise UsageError(
                f"{scenario}: feed {name}: {csv} cannot be sent to other hosts: "
                "name a file beside or below the scenario, without parameters"
            )
        path = scenario.parent / place
        if path.is_file():
            files[str(place)] = path
    return files
