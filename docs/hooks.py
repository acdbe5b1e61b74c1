"""Hooks of mkdocs: the examples become pages of the site, and links to them out of docs/ lead
there.
"""

import os
import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
LINK = re.compile(r"\]\(([^)\s#:]+\.(?:py|md))\)")
SHORT_CODE = re.compile(r"<code>([^<]{1,32})</code>")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each example, and their index."""
    examples = ROOT / "examples"
    for source in sorted([*examples.glob("*.py"), *examples.glob("adapters/*.py")]):
        code = source.read_text(encoding="utf-8")
        page = f"# {source.name}\n\n```python\n{code}```\n"
        name = source.relative_to(ROOT).with_suffix(".md").as_posix()
        files.append(File.generated(config, name, content=page))
    index = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    files.append(File.generated(config, "examples/index.md", content=index))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links to examples lead to their pages."""
    folder = (
        "examples"
        if page.file.src_uri.startswith("examples/")
        else f"docs/{posixpath.dirname(page.file.src_uri)}"
    )

    def page_of(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, link[1]))
        if not target.startswith("examples/"):
            return link[0]
        found = (
            target.replace("README.md", "index.md").removesuffix(".py").removesuffix(".md") + ".md"
        )
        return f"]({os.path.relpath(found, posixpath.dirname(page.file.src_uri) or '.')})"

    return LINK.sub(page_of, markdown)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Mark short words of code, which site.css keeps on one line."""
    return SHORT_CODE.sub(r'<code class="short">\1</code>', html)
