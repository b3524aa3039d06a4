"""Stands in for the build backend that the official client's source archive asks for.

pip keeps a source archive only after its backend has told the name and version. The real backend
would be compiled for minutes to say just that; nothing is built from the archive here.
"""

from pathlib import Path


def prepare_metadata_for_build_wheel(
    metadata_directory: str, config_settings: object = None
) -> str:
    """Write the least metadata that pip accepts; the name of its folder (PEP 517)."""
    folder = Path(metadata_directory) / "apache_iggy-0.9.0.dist-info"
    folder.mkdir()
    lines = ("Metadata-Version: 2.1", "Name: apache-iggy", "Version: 0.9.0")
    (folder / "METADATA").write_text("\n".join(lines) + "\n")
    return folder.name
