"""Renders the page: one HTML file that needs nothing else, and no network."""

import base64
import hashlib
import pathlib
import string
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tv_jax.runs.records import Method
from tv_jax.runs.report import palette
from tv_jax.runs.report.fragments import embedded, escape, paragraph

_ASSETS = pathlib.Path(__file__).parent / "assets"
_SCRIPTS = (
  "walks.js",
  "words.js",
  "marks.js",
  "drawing.js",
  "panel.js",
  "table.js",
  "traces.js",
  "choosing.js",
  "explorer.js",
)


class Section(NamedTuple):
  """A part of the page."""

  name: str  # an identifier, for links to it
  heading: str
  html: str  # made by `fragments`, or by `explorer`


def render(
  *,
  title: str,
  lead: Sequence[str] = (),
  figures: Sequence[tuple[str, str]] = (),
  sections: Sequence[Section] = (),
) -> str:
  """Renders the whole page, which may be saved and sent as it is.

  Its policy names the scripts by their hashes, so that no other script can run,
  whatever a model wrote.

  Args:
    title: The page's title.
    lead: Paragraphs of text below the title.
    figures: Key figures: (number, what it is).
    sections: The page's parts, in order.
  """
  scripts = [_asset(name) for name in _SCRIPTS]
  contents = [
    f'<li><a href="#{escape(section.name)}">{escape(section.heading)}</a></li>'
    for section in sections
  ]
  key = [
    f"<div><dt>{escape(what)}</dt><dd>{escape(number)}</dd></div>"
    for number, what in figures
  ]
  return string.Template(_asset("page.html")).substitute(
    policy=_policy(scripts),
    title=escape(title),
    style="\n".join(
      [palette.variables(), _asset("page.css"), _asset("explorer.css")]
    ),
    lead="\n".join(map(paragraph, lead)),
    figures=f'<dl class="key">{"".join(key)}</dl>' if key else "",
    contents=f"<ol>{''.join(contents)}</ol>",
    sections="\n".join(map(_section, sections)),
    scripts="\n".join(f"<script>{script}</script>" for script in scripts),
  )


def explorer(traces: Iterable[dict]) -> str:
  """Renders the tree explorer; a page can have one.

  Args:
    traces: The keys of items with "cycles", as `answers.traced` makes them, and
      perhaps "prompt".
  """
  kept = [trace for trace in traces if trace["cycles"]]
  if not kept:
    return paragraph("No trees were kept of this run.")
  rules = {
    rule
    for trace in kept
    for cycle in trace["cycles"]
    for rule in cycle["stop"]
  }
  data = {
    "traces": kept,
    "runs": [
      ", ".join([one["verifier"], one["proposal"], *Method.of(one).numbers])
      for one in kept
    ],
    "colors": {
      rule: color.name for rule, color in palette.of_verifiers(rules).items()
    },
  }
  return _asset("explorer.html") + embedded(data, "explorer-data")


def _section(section):
  name = escape(section.name)
  return (
    f'<section class="part" id="{name}" aria-labelledby="{name}-heading">\n'
    f'<h2 id="{name}-heading">{escape(section.heading)}</h2>\n'
    f"{section.html}\n</section>"
  )


def _policy(scripts):
  def digest(script):
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()

  allowed = " ".join(f"'sha256-{digest(script)}'" for script in scripts)
  return (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none';"
    f" form-action 'none'; script-src {allowed}"
  )


def _asset(name):
  return (_ASSETS / name).read_text(encoding="utf-8")
