"""Where a judge is asked, and with what key: checked before anything is sent.

The key comes from the environment, by the name of its variable, and is nowhere
else: in no file, no output, no error, no repr.
"""

from __future__ import annotations

import dataclasses
import math
import os
import re
import urllib.parse

_COMPLETIONS = "/chat/completions"
# A shorter one is a stand-in, as local servers take: it may be any word.
_SECRET = 8


@dataclasses.dataclass(frozen=True, kw_only=True)
class Endpoint:
  """An OpenAI-compatible endpoint; made by `endpoint`.

  Attributes:
    url: Of its chat completions.
    model: The judge, as the endpoint calls it.
    key: What it lets in; "" for one that lets in everybody.
    timeout: Seconds that a request may take.
    attempts: Requests for one reply, at most.
  """

  url: str
  model: str
  key: str = dataclasses.field(default="", repr=False)
  timeout: float = 120.0
  attempts: int = 6

  @property
  def place(self) -> str:
    """The URL as messages show it: what follows a "?" may be secret."""
    return self.url.partition("?")[0]

  def hidden(self, text: str) -> str:
    """A text of the endpoint's, without the key, should that be in it."""
    if len(self.key) < _SECRET:
      return text
    return text.replace(self.key, "[key]")


def endpoint(
  url: str, model: str, key: str = "", timeout: float = 120.0
) -> Endpoint:
  """Checks what a user says of an endpoint.

  Args:
    url: Up to the version, as http://localhost:8000/v1, or the whole.
    model: The judge.
    key: The NAME of the variable of the environment that holds the key; "": the
      endpoint asks for none.
    timeout: Seconds that a request may take.

  Returns:
    The endpoint.

  Raises:
    ValueError: What is wrong, without the key.
  """
  place = _completions(url)
  if not model.strip():
    raise ValueError("--judge_model is missing: name the model that judges")
  if not 0 < timeout < math.inf:
    raise ValueError(f"--judge_timeout={timeout:g}: give a number of seconds")
  return Endpoint(url=place, model=model, key=_key(key), timeout=timeout)


def _completions(url: str) -> str:
  """Where chats are completed at a base URL."""
  # Not shown when it is refused: a password may be in it.
  example = "as https://api.openai.com/v1 or http://localhost:8000"
  if not url:
    raise ValueError(f"--judge_url is missing: the endpoint's base, {example}")
  try:
    parts = urllib.parse.urlsplit(url)
    sound = parts.scheme in ("http", "https") and bool(parts.hostname)
    sound = sound and parts.port != 0 and bool(parts.hostname.encode("idna"))
  except ValueError:
    sound = False
  if not sound or not re.fullmatch(r"[!-~]+", url):
    raise ValueError(f"--judge_url is no URL: give one, {example}")
  if parts.username is not None:
    raise ValueError(
      "--judge_url holds a name or a password: give a key by --judge_key"
    )
  path = parts.path.rstrip("/")
  if not path.endswith(_COMPLETIONS):
    # Some have a version of another name, or something behind it.
    versions = [one for one in path.split("/") if re.match(r"v\d", one)]
    path += _COMPLETIONS if versions else f"/v1{_COMPLETIONS}"
  return urllib.parse.urlunsplit(parts._replace(path=path, fragment=""))


def _key(name: str) -> str:
  """The key in a variable."""
  if not name:
    return ""
  # The name is not shown: it may be the key itself, given by mistake.
  key = os.environ.get(name, "").strip()
  if not key:
    raise ValueError(
      "--judge_key: there is no such variable in the environment, or it is"
      " empty: export one that holds the key, and give its NAME"
    )
  if not re.fullmatch(r"[!-~]+", key):
    raise ValueError(
      "--judge_key: what the variable holds is no key: there are spaces or odd"
      " characters in it"
    )
  return key
