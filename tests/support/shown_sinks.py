"""The sink that a page shows, as a launcher would hand it to the job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from iggy_operator.launchers.job import job_file
from iggy_operator.resources import load
from launcher_cases import job_of
from page_samples import blocks


def shown(page: str, folder: Path) -> dict[str, Any]:
    """The job's file of the only sink of `docs/sinks/<page>.md`; `folder` is for its document."""
    (sample,) = (one for one in blocks() if one.place.startswith(f"docs/sinks/{page}.md"))
    file = folder / "sample.yaml"
    file.write_text(sample.text)
    (topic,) = load([file]).topics
    (sink,) = topic.sinks
    return dict(job_file(job_of(sink)))
