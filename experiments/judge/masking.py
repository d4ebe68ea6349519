"""A secret in somebody else's text, masked in whatever form it comes back.

Compared are letters and digits alone, in lower case and after escapes are
undone: so capitals, spaces and breaks within, quotes, JSON's, URLs' and HTML's
escapes are one form. Base64 and hexadecimal digits are others. A part counts
as well: what a message cuts off is no less a secret.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator

MASK = "[key]"
# A shorter secret is a stand-in, as local servers take: it may be any word.
SHORTEST = 8
# Letters of a part: fewer may be a word.
_PART = 12

_UNIT = re.compile(
  r"%(?:25)*([0-9a-f]{2})|\\+(?:u00|x)([0-9a-f]{2})|&#x0*([0-9a-f]{2});"
  r"|&#0*([0-9]{2,3});|\\+[nrt]|(.)",
  re.IGNORECASE | re.DOTALL,
)


def mask(text: str, secret: str) -> str:
  """The text with MASK where the secret, or a part of it, stood."""
  if len(secret) < SHORTEST:
    return text
  text = text.replace(secret, MASK)
  letters, places = _letters(text)
  covered = bytearray(len(letters))
  for form in _forms(secret):
    size = min(_PART, len(form))
    parts = {form[i : i + size] for i in range(len(form) - size + 1)}
    for start in range(len(letters) - size + 1):
      if letters[start : start + size] in parts:
        covered[start : start + size] = b"\1" * size
  for run in reversed([*re.finditer(rb"\x01+", covered)]):
    start, end = places[run.start()][0], places[run.end() - 1][1]
    text = text[:start] + MASK + text[end:]
  return text


def _letters(text: str) -> tuple[str, list[tuple[int, int]]]:
  """Letters and digits of a text, and where each stands in it."""
  letters, places = [], []
  for unit in _UNIT.finditer(text):
    *hexadecimal, number, letter = unit.groups()
    if code := next(filter(None, hexadecimal), None):
      letter = chr(int(code, 16))
    elif number:
      letter = chr(int(number))
    if letter and letter.isascii() and letter.isalnum():
      letters.append(letter.lower())
      places.append(unit.span())
  return "".join(letters), places


def _forms(secret: str) -> Iterator[str]:
  """The secret's letters, written in each of the ways."""
  data = secret.encode()
  forms = [secret, data.hex()]
  for before in range(3):  # "Bearer " or a name may stand before it
    coded = base64.b64encode(bytes(before) + data).decode()
    # Of the outermost digits some bits are its neighbours'.
    forms.append(coded[-(-before * 8 // 6) : (before + len(data)) * 8 // 6])
  for form in forms:
    letters, _ = _letters(form)
    # A secret of hardly any letters: it is looked for as it is alone.
    if len(letters) >= SHORTEST - 2:
      yield letters
