"""The sink that a page shows, as a launcher would hand it to the job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from iggy_operator.launchers.job import job_file
from iggy_operator.resources import load
from launcher_cases import job_of
from page_samples import blocks


def shown(page: str, folder: Path, *, number: int = 0) -> dict[str, Any]:
    """The job's file of a sink of `docs/sinks/<page>.md`, by the number of its sample; `folder` is
    for its document.
    """
    sample = [one for one in blocks() if one.place.startswith(f"docs/sinks/{page}.md")][number]
    file = folder / "sample.yaml"
    file.write_text(sample.text)
    (topic,) = load([file]).topics
    (sink,) = topic.sinks
    return dict(job_file(job_of(sink)))
