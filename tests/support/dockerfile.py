"""The Dockerfile as the tests read it: stages, each with its instructions in order."""

import re
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FINAL = ("broker", "operator", "spark", "spark-4.1", "spark-4.2")


@dataclass(frozen=True, slots=True)
class Stage:
    """What one FROM begins: (instruction, words) in order."""

    name: str
    base: str
    steps: list[tuple[str, str]] = field(default_factory=list)

    def all(self, instruction: str) -> list[str]:
        return [words for found, words in self.steps if found == instruction]

    def last(self, instruction: str) -> str:
        """The one that counts: the last."""
        return self.all(instruction)[-1]

    def labels(self) -> dict[str, str]:
        return dict(re.findall(r'([a-z.]+)="([^"]*)"', " ".join(self.all("LABEL"))))

    def variables(self) -> dict[str, str]:
        return dict(pair.split("=", 1) for words in self.all("ENV") for pair in words.split())


def text() -> str:
    return (ROOT / "Dockerfile").read_text()


def stages() -> dict[str, Stage]:
    """Name → stage. Comments are gone, continued lines are one."""
    lines = [line for line in text().splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    found: dict[str, Stage] = {}
    for line in filter(None, joined.splitlines()):
        instruction, _, words = line.partition(" ")
        if instruction == "FROM":
            base, _, name = words.partition(" AS ")
            found[name] = Stage(name, base)
        elif found:
            list(found.values())[-1].steps.append((instruction, words.strip()))
    return found


def image(name: str) -> Stage:
    """A final stage with what it inherits from the stages below."""
    known = stages()
    stage = known[name]
    steps = stage.steps
    while stage.base in known:
        stage = known[stage.base]
        steps = [*stage.steps, *steps]
    return Stage(name, stage.base, steps)
