"""A question to an OpenAI-compatible endpoint, asked until there is a reply.

What may pass by itself is asked again, after a pause that doubles and is never
the same for two (exponential backoff with jitter), and is as long as the
endpoint says (Retry-After): 429, 5xx, time-outs, connections that break, bodies
that are no reply. What cannot, as a wrong key, is the end at once. The client's
own retries are off: they know no body that is none, and no end of a request.

The key comes from the environment, by the name of its variable, and is nowhere
else: in no file, no output, no error, no repr.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import email.utils
import json
import math
import os
import random
import re
import ssl
import time
import urllib.parse
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from experiments.judge import masking
from tv_jax.edge.reading import shown

ATTEMPTS = 6  # requests for one reply, at most
FIRST, LONGEST = 1.0, 60.0  # pauses, in seconds
PATIENCE = 300.0  # longer than this no Retry-After is waited for
_CONNECTING = 20.0  # seconds
_COMPLETIONS = "/chat/completions"
_LONG = 10_000  # letters: nobody reads as many
_PASSES = (408, 409, 425, 429)  # and all from 500 on
_REMEDIES = {
  401: ": give --judge_key=NAME, of the variable that holds a valid key",
  404: ": look at --judge_url and --judge_model",
}


class EndpointError(OSError):
  """Why nobody need be asked any more, in a line for the user."""


class UnansweredError(Exception):
  """Why there is no reply to this question; another one may have one."""


class _PassingError(Exception):
  """Trouble that may pass."""

  def __init__(self, why: str, after: float = 0.0, offline: bool = False):
    """Why; in how many seconds to ask again; whether nobody is there at all."""
    super().__init__(why)
    self.after, self.offline = after, offline


class Reply(NamedTuple):
  """What a judge said.

  Attributes:
    text: All of it; "" if it said nothing.
    finish_reason: Why it ended there, as the endpoint has it; "" if it has not.
    model: Who said it, likewise.
  """

  text: str
  finish_reason: str
  model: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Endpoint:
  """An OpenAI-compatible endpoint; made by `endpoint`.

  Attributes:
    url: Of its chat completions.
    model: The judge, as the endpoint calls it.
    key: What it lets in; "" for one that lets in everybody.
    timeout: Seconds that a request may take, from first to last.
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
    """A text of the endpoint's, without the key, should that be in it."""
    return masking.mask(text, self.key)

  def connect(self):
    """The client, for one event loop; it closes as a context.

    Raises:
      ValueError: There is none, as what it needs is not installed.
    """
    try:
      import openai  # an extra
    except ImportError as error:
      raise ValueError(
        f"a judge is asked by the openai package, and {error}: pip install -e"
        " '.[judge]'"
      ) from None
    base, _, query = self.url.partition("?")
    try:
      return openai.AsyncOpenAI(
        base_url=base.removesuffix(_COMPLETIONS),
        default_query=dict(urllib.parse.parse_qsl(query, True)),
        api_key=self.key or "none",  # it would take the environment's
        max_retries=0,
        timeout=openai.Timeout(None, connect=_CONNECTING),  # `ask` has the rest
        # Nobody else is sent the key.
        http_client=openai.DefaultAsyncHttpxClient(follow_redirects=False),
      )
    except Exception as error:  # an odd URL, proxy or file of certificates
      raise ValueError(
        f"there is no client for {shown(self.place)}: {error}"
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


async def ask(
  client,
  endpoint: Endpoint,
  messages: Sequence[dict],
  sleep: Callable[[float], Awaitable] = asyncio.sleep,
) -> Reply:
  """Asks until there is a reply.

  Args:
    client: Of `endpoint.connect`.
    endpoint: Whom.
    messages: The chat: roles and contents.
    sleep: Waits so many seconds.

  Returns:
    The reply.

  Raises:
    EndpointError: No question will have a reply.
    UnansweredError: This one had none in all attempts.
  """
  for attempt in range(1, ATTEMPTS + 1):
    try:
      async with asyncio.timeout(endpoint.timeout):
        return await _reply(client, endpoint, messages)
    except TimeoutError:
      trouble = _PassingError(f"no reply within {endpoint.timeout:g} s")
    except _PassingError as error:
      trouble = error
    if trouble.after > PATIENCE:
      raise EndpointError(
        f"{endpoint.place} wants no requests for more than {PATIENCE:g} s"
        f" ({trouble}): give the same command later"
      )
    if attempt < ATTEMPTS:
      await sleep(trouble.after + pause(attempt))
  told = f"{trouble} ({ATTEMPTS} attempts)"
  if trouble.offline:
    raise EndpointError(f"{endpoint.place} cannot be reached: {told}")
  raise UnansweredError(told)


def pause(attempt: int) -> float:
  """Seconds to wait after so many attempts: between a half and all of 2^n."""
  return min(LONGEST, FIRST * 2 ** (attempt - 1)) * random.uniform(0.5, 1)


async def _reply(client, endpoint, messages) -> Reply:
  """The reply to one request."""
  import openai

  # Half a surrogate pair has no UTF-8.
  sound = [
    {name: text.encode(errors="replace").decode() for name, text in one.items()}
    for one in messages
  ]
  key = f"Bearer {endpoint.key}" if endpoint.key else openai.Omit()
  response = None
  try:
    response = await client.chat.completions.with_raw_response.create(
      model=endpoint.model,
      messages=sound,
      temperature=0,
      extra_headers={"Authorization": key},
    )
    body = json.loads(response.content.decode())
    choice = body["choices"][0]
    text = choice["message"].get("content") or ""
    if isinstance(text, list):  # of parts, as some have it
      text = "".join(str(part.get("text") or "") for part in text)
    words = choice.get("finish_reason"), body.get("model")
    words = [word if isinstance(word, str) else "" for word in words]
    return Reply(endpoint.hidden(text), *map(endpoint.hidden, words))
  except openai.APIStatusError as error:
    raise _of_status(endpoint, error.response) from None
  except openai.APIConnectionError as error:
    raise _of_connection(endpoint, error) from None
  except Exception as error:  # there is no end of odd bodies
    said = (
      _line(endpoint, response.content) if response else type(error).__name__
    )
    raise _PassingError(f"a reply that is none: {said or 'empty'}") from None


def _of_connection(endpoint: Endpoint, error: BaseException) -> Exception:
  """What a connection that failed comes to, by what is at the bottom of it."""
  reason = None
  while error := error.__cause__ or error.__context__:
    reason = error if isinstance(error, OSError) else reason
  if isinstance(reason, ssl.SSLCertVerificationError):
    return EndpointError(
      f"{endpoint.place} shows no certificate that is trusted"
      f" ({reason.verify_message})"
    )
  broken = ConnectionResetError | BrokenPipeError | ssl.SSLError | None
  if isinstance(reason, broken):
    return _PassingError("the connection broke")
  numbered = (reason.errno or 0) > 0  # asyncio has words of its own
  told = os.strerror(reason.errno) if numbered else reason.strerror
  return _PassingError(told or "nobody answers", offline=True)


def _of_status(endpoint: Endpoint, response) -> Exception:
  """What a status that is no success comes to."""
  status, headers = response.status_code, response.headers
  told = f"HTTP {status}"
  # What is said to 401 may hold a part of the key.
  if status != 401 and (said := _line(endpoint, response.content)):
    told += f": {said}"
  if status in _PASSES or status >= 500:
    return _PassingError(told, _after(headers.get("Retry-After", "")))
  remedy = _REMEDIES.get(status, "")
  if 300 <= status < 400:
    goal = headers.get("Location", "?").partition("?")[0].encode()
    remedy = f": it sends on to {_line(endpoint, goal)}: give --judge_url anew"
  return EndpointError(f"{endpoint.place} refuses the request ({told}){remedy}")


def _line(endpoint: Endpoint, data: bytes) -> str:
  """What an endpoint says, in a few words; of the API's errors the message."""
  text = data.decode(errors="replace")
  with contextlib.suppress(ValueError, LookupError, TypeError, RecursionError):
    found = json.loads(text)["error"]
    text = found if isinstance(found, str) else str(found["message"])
  words = " ".join(endpoint.hidden(text[:_LONG]).split())
  return "".join(one for one in words if one.isprintable())[:200]


def _after(value: str) -> float:
  """The seconds of Retry-After, which may be a date; 0: there are none."""
  try:
    seconds = float(value)
  except ValueError:
    try:
      date = email.utils.parsedate_to_datetime(value)
      seconds = date.timestamp() - time.time()
    except (ValueError, TypeError, OverflowError):
      return 0.0
  return seconds if seconds > 0 else 0.0  # a NaN is none
