"""An endpoint with OpenAI's chat completions, asked by the `openai` package.

The package asks again what may pass by itself: 408, 409, 429, 5xx, time-outs,
connections that break. It waits longer each time, or as the endpoint says.

The key comes from the environment, by the name of its variable, and is nowhere
else: in no file, no output, no error, no repr.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import math
import os
import re
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from experiments.judge import masking
from tv_jax.edge import reading

RETRIES = 5  # of a request
WAITS = 120.0  # seconds that the package waits before one, at most
_COMPLETIONS = "/chat/completions"
_CONNECTING = 20.0  # seconds
_LONG = 10_000  # letters: nobody reads as many
_LARGEST = 16 << 20  # bytes of a reply: thousands of times what one takes
_PASSES = (408, 409, 425, 429)  # and all from 500 on
_REMEDIES = {
  401: ": give --judge_key=NAME, of the variable that holds a valid key",
  404: ": look at --judge_url and --judge_model",
}


class EndpointError(OSError):
  """Why no other question needs to be asked, in a line for the user."""


class UnansweredError(Exception):
  """Why there is no reply to this question; another one may have one."""


class Reply(NamedTuple):
  """What a judge said.

  Attributes:
    text: All of it; "" if it said nothing.
    finish_reason: Why it ended there, as the endpoint says; "" if it does not.
    model: Who said it, likewise.
  """

  text: str
  finish_reason: str
  model: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Endpoint:
  """An OpenAI-compatible endpoint; made by `endpoint`.

  Attributes:
    url: Above its chat completions.
    model: The judge, as the endpoint calls it.
    key: What it lets in; "" for one that lets in everybody.
    timeout: Seconds that it may be silent.
  """

  url: str
  model: str
  key: str = dataclasses.field(default="", repr=False)
  timeout: float = 120.0

  @property
  def place(self) -> str:
    """The URL as messages show it: what follows a "?" may be secret."""
    return self.url.partition("?")[0]

  def hidden(self, text: str) -> str:
    """Returns a text of the endpoint's without the key."""
    return masking.mask(text, self.key)

  def connect(self):
    """Returns the client, for one event loop; it closes as a context.

    Raises:
      ValueError: What it needs is not installed, or it does not take the URL.
    """
    try:
      import openai  # an extra
    except ImportError as error:
      raise ValueError(
        f"a judge is asked by the openai package, and {error}: pip install -e"
        " '.[judge]'"
      ) from None
    query = urllib.parse.urlsplit(self.url).query
    try:
      return openai.AsyncOpenAI(
        base_url=self.place,
        default_query=dict(urllib.parse.parse_qsl(query, True)),
        api_key=self.key or "none",  # it would take the environment's
        max_retries=RETRIES,
        timeout=openai.Timeout(self.timeout, connect=_CONNECTING),
        # Nobody else is sent the key.
        http_client=openai.DefaultAsyncHttpxClient(
          follow_redirects=False, event_hooks={"response": [_limit]}
        ),
      )
    except Exception as error:  # an odd URL, proxy or file of certificates
      raise ValueError(
        f"there is no client for {reading.shown(self.place)}: {error}"
      ) from None


def endpoint(
  url: str, model: str, key: str = "", timeout: float = 120.0
) -> Endpoint:
  """Checks what a user says of an endpoint.

  Args:
    url: Up to the version, as http://localhost:8000/v1, or the whole.
    model: The judge.
    key: The NAME of the variable of the environment that holds the key; "": the
      endpoint asks for none.
    timeout: Seconds that the endpoint may be silent.

  Raises:
    ValueError: What is wrong, without the key.
  """
  place = _base(url)
  if not model.strip():
    raise ValueError("--judge_model is missing: name the model that judges")
  if not 0 < timeout < math.inf:
    raise ValueError(f"--judge_timeout={timeout:g}: give a number of seconds")
  return Endpoint(url=place, model=model, key=_key(key), timeout=timeout)


def _base(url: str) -> str:
  """Returns the URL above the chat completions."""
  # Not shown when it is refused: a password may be in it.
  example = "as https://api.openai.com/v1 or http://localhost:8000"
  if not url:
    raise ValueError(f"--judge_url is missing: the endpoint's base, {example}")
  try:
    parts = urllib.parse.urlsplit(url)
    sound = parts.scheme in ("http", "https") and parts.hostname
    sound = sound and parts.port != 0 and re.fullmatch(r"[!-~]+", url)
  except ValueError:
    sound = False
  if not sound:
    raise ValueError(f"--judge_url is no URL: give one, {example}")
  if parts.username is not None:
    raise ValueError(
      "--judge_url holds a name or a password: give a key by --judge_key"
    )
  path = parts.path.rstrip("/")
  if path.endswith(_COMPLETIONS):
    path = path.removesuffix(_COMPLETIONS)
  # Some have a version of another name, or something behind it.
  elif not any(re.match(r"v\d", one) for one in path.split("/")):
    path += "/v1"
  return urllib.parse.urlunsplit(parts._replace(path=path, fragment=""))


def _key(name: str) -> str:
  """Returns the key in a variable."""
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


async def ask(client, endpoint: Endpoint, messages: Sequence[dict]) -> Reply:
  """Returns the reply to a chat.

  Args:
    client: Of `endpoint.connect`.
    endpoint: Whom to ask.
    messages: The chat: roles and contents.

  Raises:
    EndpointError: No question will have a reply.
    UnansweredError: This one had none in all attempts.
  """
  import openai

  # Half a surrogate pair has no UTF-8.
  sound = [
    {name: text.encode(errors="replace").decode() for name, text in one.items()}
    for one in messages
  ]
  # For one that is never silent, and never comes to an end.
  limit = (RETRIES + 1) * (endpoint.timeout + WAITS)
  try:
    async with asyncio.timeout(limit):
      found = await client.chat.completions.create(
        model=endpoint.model,
        messages=sound,
        temperature=0,
        extra_headers={} if endpoint.key else {"Authorization": openai.Omit()},
      )
    choice = found.choices[0]
    text = choice.message.content or ""
    if not isinstance(text, str):  # of parts, as some have it
      text = "".join(str(part.get("text") or "") for part in text)
    words = (text, choice.finish_reason, found.model)
    return Reply(
      *(endpoint.hidden(x) if isinstance(x, str) else "" for x in words)
    )
  except openai.APIStatusError as error:
    raise _of_status(endpoint, error) from None
  except openai.APIConnectionError as error:
    told, root = str(error).rstrip("."), error
    while cause := root.__cause__ or root.__context__:
      root = cause
    reason = getattr(root, "strerror", None) or str(root) or type(root).__name__
    raise UnansweredError(f"{told} ({reading.line(reason)})") from None
  except TimeoutError:
    raise UnansweredError(f"no end of it within {limit:g} s") from None
  except UnansweredError:
    raise
  except Exception as error:  # there is no end of odd bodies
    raise UnansweredError(
      f"a reply that is none ({type(error).__name__})"
    ) from None


async def _limit(response) -> None:
  """Lets a response end with an error where it grows too large."""
  whole = response.aiter_bytes

  async def pieces(*arguments):
    count = 0
    async with contextlib.aclosing(whole(*arguments)) as parts:
      async for part in parts:
        count += len(part)
        if count > _LARGEST:
          raise UnansweredError(f"a reply of more than {_LARGEST >> 20} MB")
        yield part

  response.aiter_bytes = pieces


def _of_status(endpoint: Endpoint, error) -> Exception:
  """Returns what a status that is no success comes to."""
  status, body = error.status_code, error.body
  if isinstance(body, Mapping):
    body = body.get("message", body)
  said = endpoint.hidden(str(body or "")[:_LONG])
  told = f"HTTP {status}"
  # What is said to 401 may hold a part of the key.
  if status != 401 and said:
    told += f": {reading.line(said)[:200]}"
  if status in _PASSES or status >= 500:
    return UnansweredError(told)
  remedy = _REMEDIES.get(status, "")
  if 300 <= status < 400:
    goal = error.response.headers.get("Location", "?").partition("?")[0]
    remedy = f": it sends on to {endpoint.hidden(goal)}: give --judge_url anew"
  return EndpointError(f"{endpoint.place} refuses the request ({told}){remedy}")
