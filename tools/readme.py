"""The README as a package index shows it, and the address of the project.

A package index shows only the text of the README. Pictures and links that are relative to this folder lead nowhere
there. If pyproject.toml names the address of the project (``address`` in ``[tool.pmbandits]``), they are made absolute,
and the package gets its project URLs. Without an address a picture becomes its description, and a link becomes its
text. hatchling calls this file when it builds.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

try:
    from hatchling.metadata.plugin.interface import MetadataHookInterface
except ImportError:  # only hatchling needs the class; the functions are for tests, too
    MetadataHookInterface = object

ASIDE = re.compile(r"\s\(\[[^\]]*\]\((?!https?:)[^)\s]+\)\)")  # a link in brackets says nothing without the link
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|mailto:)([^)\s]+)\)")


def rendered(text: str, address: str, version: str) -> str:
    """The README with links that work outside of this folder.

    >>> rendered("![A picture](docs/a.png) and [a page](docs/a.md) ([guide](docs/b.md)).", "", "1.0")
    '*(Picture: A picture)* and a page.'
    >>> rendered("![A picture](docs/a.png)", "https://example.org/p", "1.0")
    '![A picture](https://example.org/p/raw/v1.0/docs/a.png)'
    """

    def replace(found: re.Match[str]) -> str:
        picture, words, path = found.groups()
        if not address:
            return f"*(Picture: {words})*" if picture else words
        if path.startswith("#"):
            return found[0]
        return f"{picture}[{words}]({address}/{'raw' if picture else 'blob'}/v{version}/{path})"

    if not address:
        text = ASIDE.sub("", text)
    return LINK.sub(replace, text)


def urls(address: str, version: str) -> dict[str, str]:
    """The project URLs of the package; none without an address."""
    if not address:
        return {}
    return {
        "Source": address,
        "Documentation": f"{address}/tree/v{version}/docs",
        "Changelog": f"{address}/blob/v{version}/CHANGELOG.md",
        "Issues": f"{address}/issues",
    }


class CustomMetadataHook(MetadataHookInterface):  # type: ignore[misc]
    """What hatchling asks for."""

    def update(self, metadata: dict[str, Any]) -> None:
        root = Path(self.root)
        settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pmbandits"]
        address, version = settings["address"].rstrip("/"), metadata["version"]
        text = rendered((root / "README.md").read_text(encoding="utf-8"), address, version)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        metadata["urls"] = urls(address, version)
