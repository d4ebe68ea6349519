"""A secret in somebody else's text, in whatever form it comes back.

Compared are letters and digits alone, in lower case and after escapes are
undone: so capitals, spaces and breaks within, quotes, JSON's, URLs' and HTML's
escapes are one form. Base64 and hexadecimal digits are others. A part counts
as well: what a message cuts off is no less a secret.
"""

from __future__ import annotations

import base64
import html
import re
import urllib.parse
from collections.abc import Iterator

MASK = "[key]"
WITHHELD = "[a text that holds the key]"
# A shorter secret is a stand-in, as local servers take: it may be any word.
SHORTEST = 8
# Letters of a part: fewer may be a word.
_PART = 12


def mask(text: str, secret: str) -> str:
  """Returns the text with MASK where the secret stood.

  A text that holds the secret, or a part of it, in another form is withheld.
  """
  if len(secret) < SHORTEST:
    return text
  text = text.replace(secret, MASK)
  letters = _letters(text)
  for form in _forms(secret):
    size = min(_PART, len(form))
    for start in range(len(form) - size + 1):
      if form[start : start + size] in letters:
        return WITHHELD
  return text


def _letters(text: str) -> str:
  """Returns letters and digits, in lower case, once escapes are undone."""
  for _ in range(3):  # one may be within another
    text = urllib.parse.unquote(html.unescape(text))
    text = re.sub(
      r"\\+(?:u00|x)([0-9a-fA-F]{2})", lambda code: chr(int(code[1], 16)), text
    )
  text = re.sub(r"\\+[nrt]", "", text).lower()
  return "".join(x for x in text if x.isascii() and x.isalnum())


def _forms(secret: str) -> Iterator[str]:
  """Yields the secret's letters, written in each of the ways."""
  data = secret.encode()
  forms = [secret, data.hex()]
  for before in range(3):  # "Bearer " or a name may stand before it
    coded = base64.b64encode(bytes(before) + data).decode()
    # Of the outermost digits some bits are its neighbours'.
    forms.append(coded[-(-before * 8 // 6) : (before + len(data)) * 8 // 6])
  for form in forms:
    letters = _letters(form)
    # A secret of hardly any letters: it is looked for as it is alone.
    if len(letters) >= SHORTEST - 2:
      yield letters
