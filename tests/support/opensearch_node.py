"""A real OpenSearch with one node, from Maven: python tests/support/opensearch_node.py 9200

Needs Java 17 and Maven; the first start downloads some 100 MB. Ends with Ctrl-C, and keeps nothing.
Tests that want it find it by OPENSEARCH_URL=http://127.0.0.1:9200.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCES = Path(__file__).parent / "opensearch"
LOGS = """rootLogger.level=warn
rootLogger.appenderRef.c.ref=c
appender.c.type=Console
appender.c.name=c
appender.c.layout.type=PatternLayout
"""


def build(folder: Path) -> str:
    """Compile in `folder`; the class path."""
    shutil.copytree(SOURCES, folder)
    goals = ["compile", "dependency:build-classpath", "-Dmdep.outputFile=jars"]
    subprocess.run(["mvn", "-q", "-B", *goals], cwd=folder, check=True)
    return f"{folder / 'target' / 'classes'}:{(folder / 'jars').read_text().strip()}"


def run(port: int) -> int:
    """Until it ends."""
    with tempfile.TemporaryDirectory() as name:
        classes = build(Path(name) / "sources")
        home = Path(name) / "home"
        (home / "config").mkdir(parents=True)
        (home / "config" / "log4j2.properties").write_text(LOGS)
        options = ["-Xmx512m", f"-Dopensearch.path.conf={home / 'config'}", "-cp", classes]
        return subprocess.call(["java", *options, "OneNode", str(home), str(port)], env=os.environ)


if __name__ == "__main__":
    sys.exit(run(int(sys.argv[1])))
