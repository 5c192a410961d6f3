"""What turns docs/ into a site besides MkDocs itself (its hook): pages from the root, links out of docs/.

On a forge and in an editor docs/ is read as it lies there, with links to files all over the
checkout. The site has the documents of the root as pages of its own; a link to any other file
leads to the forge if `repo_url` is set, else it is mere text.
"""

from __future__ import annotations

import posixpath
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

ROOT = Path(__file__).parent.parent
#: Documents of the root and the names of their pages. Not SECURITY.md: a file system that knows no
#: case would take it for security.md.
FROM_ROOT = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security-policy.md",
}
#: A link, or code, in which nothing is one; whatever begins first.
LINK_OR_CODE = re.compile(
    r"^```.*?^```|(?<!!)\[(?P<text>[^\[\]]*)\]\((?P<target>[^()\s]+)\)|`[^`\n]*`",
    re.MULTILINE | re.DOTALL,
)
IMAGE = re.compile(r'(src=")docs/')


def for_site(text: str, source: str, repo_url: str | None = None) -> str:
    """A document with its links as the site needs them. source: its path in the checkout."""

    def placed(link: re.Match[str]) -> str:
        target, hash_, anchor = (link["target"] or "").partition("#")
        if not target or re.match(r"\w+:", target):
            return link[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        if path in FROM_ROOT:
            return f"[{link['text']}]({FROM_ROOT[path]}{hash_}{anchor})"
        if path.startswith("docs/"):
            return f"[{link['text']}]({path.removeprefix('docs/')}{hash_}{anchor})"
        return f"[{link['text']}]({repo_url}/blob/HEAD/{path})" if repo_url else link["text"]

    return IMAGE.sub(r"\1", LINK_OR_CODE.sub(placed, text))


def repository(project: str) -> str | None:
    """Return the repository's address from the text of pyproject.toml, None while there is none."""
    address: str | None = tomllib.loads(project)["project"]["urls"].get("Repository")
    return address


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    config.repo_url = repository((ROOT / "pyproject.toml").read_text("utf-8"))
    config.repo_name = "Repository"
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    from mkdocs.structure.files import File

    for source, page in FROM_ROOT.items():
        text = for_site((ROOT / source).read_text("utf-8"), source, config.repo_url)
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: MkDocsConfig, **_: object) -> str:
    if page.file.generated_by is not None:
        return markdown
    return for_site(markdown, f"docs/{page.file.src_uri}", config.repo_url)
