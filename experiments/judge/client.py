"""A question to an OpenAI-compatible endpoint, asked until there is a reply.

What may pass by itself is asked again, after a pause that doubles and is never
the same for two (exponential backoff with jitter), and is as long as the
endpoint says (Retry-After): 429, 5xx, time-outs, connections that break, bodies
that are no reply. What cannot, as a wrong key, is the end at once.
"""

from __future__ import annotations

import http.client
import json
import random
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from typing import NamedTuple

from experiments.judge import troubles
from experiments.judge.endpoint import Endpoint
from experiments.judge.troubles import (
  EndpointError,
  PassingError,
  UnansweredError,
)

FIRST, LONGEST = 1.0, 60.0  # pauses, in seconds
PATIENCE = 300.0  # longer than this no Retry-After is waited for
_LARGEST = 1 << 23  # bytes of a reply


class Reply(NamedTuple):
  """What a judge said.

  Attributes:
    text: All of it; "" if it said nothing.
    finish_reason: Why it ended there, as the endpoint has it.
    model: Who said it, as the endpoint has it.
  """

  text: str
  finish_reason: str | None
  model: str | None


def ask(
  endpoint: Endpoint,
  messages: Sequence[dict],
  sleep: Callable[[float], object] = time.sleep,
) -> Reply:
  """Asks until there is a reply.

  Args:
    endpoint: Whom.
    messages: The chat: roles and contents.
    sleep: Waits so many seconds.

  Returns:
    The reply.

  Raises:
    EndpointError: No question will have a reply.
    UnansweredError: This one had none in all attempts.
  """
  body = {"model": endpoint.model, "messages": [*messages], "temperature": 0}
  data = json.dumps(body).encode()
  for attempt in range(1, endpoint.attempts + 1):
    try:
      return _reply(endpoint, _sent(endpoint, data))
    except PassingError as error:
      trouble = error
    if trouble.after > PATIENCE:
      raise EndpointError(
        f"{endpoint.place} wants no requests for {trouble.after:.0f} s"
        f" ({trouble}): give the same command later"
      )
    if attempt < endpoint.attempts:
      sleep(trouble.after + pause(attempt))
  told = f"{trouble} ({endpoint.attempts} attempts)"
  if trouble.offline:
    raise EndpointError(f"{endpoint.place} cannot be reached: {told}")
  raise UnansweredError(told)


def pause(attempt: int) -> float:
  """Seconds to wait after so many attempts: between a half and all of 2^n."""
  return min(LONGEST, FIRST * 2 ** (attempt - 1)) * random.uniform(0.5, 1)


class _Unredirected(urllib.request.HTTPRedirectHandler):
  """Nobody else is sent the key."""

  def redirect_request(self, *_):
    """None: a redirection is an error."""
    return None


def _sent(endpoint: Endpoint, data: bytes) -> bytes:
  """The body of the response to one request."""
  headers = {"Content-Type": "application/json", "User-Agent": "tv_jax"}
  if endpoint.key:
    headers["Authorization"] = f"Bearer {endpoint.key}"
  request = urllib.request.Request(endpoint.url, data, headers)
  opener = urllib.request.build_opener(_Unredirected)
  end = time.monotonic() + endpoint.timeout
  try:
    with opener.open(request, timeout=endpoint.timeout) as response:
      return _body(response, end)
  except urllib.error.HTTPError as error:
    with error:
      raise troubles.of_status(endpoint, error, _told(error, end)) from None
  except (OSError, http.client.HTTPException) as error:
    raise troubles.of_connection(endpoint, error) from None


def _body(response, end: float) -> bytes:
  """All of a body, unless it comes too slowly or is too long."""
  data = b""
  while piece := response.read1(1 << 16):
    data += piece
    if time.monotonic() > end:
      raise TimeoutError
    if len(data) > _LARGEST:
      raise PassingError(f"a reply of more than {_LARGEST >> 20} MB")
  if response.length:  # it was cut short, which read1 does not say
    raise http.client.IncompleteRead(data, response.length)
  return data


def _told(error: urllib.error.HTTPError, end: float) -> bytes:
  """What is said of an error, as far as that is to be had."""
  try:
    return _body(error, end)
  except (OSError, http.client.HTTPException, PassingError):
    return b""


def _reply(endpoint: Endpoint, data: bytes) -> Reply:
  """The reply in a body."""
  try:
    body = json.loads(data.decode())
  except (ValueError, RecursionError):
    told = "a body that is no JSON" if data.strip() else "an empty body"
    raise PassingError(told) from None
  try:
    choice = body["choices"][0]
    text = _text(choice["message"].get("content"))
  except (LookupError, TypeError, AttributeError):
    told = troubles.said(endpoint, data)
    raise PassingError(f"a reply without choices{told}") from None

  def word(value):
    return endpoint.hidden(value) if isinstance(value, str) else None

  finish, model = choice.get("finish_reason"), body.get("model")
  return Reply(endpoint.hidden(text), word(finish), word(model))


def _text(content) -> str:
  """A message's text, which some endpoints give in parts."""
  if content is None:
    return ""
  if isinstance(content, list):
    parts = [part.get("text") for part in content]
    return "".join(part for part in parts if isinstance(part, str))
  if not isinstance(content, str):
    raise TypeError
  return content
