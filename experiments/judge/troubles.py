"""What may go wrong with a request, and whether it may pass."""

from __future__ import annotations

import email.utils
import http.client
import json
import math
import ssl
import time
import urllib.error

from experiments.judge.endpoint import Endpoint
from tv_jax.reading import shown

_PASSES = (408, 409, 425, 429)  # and all from 500 on


class EndpointError(OSError):
  """Why nobody need be asked any more, in a line for the user."""


class UnansweredError(Exception):
  """Why there is no reply to this question; another one may have one."""


class PassingError(Exception):
  """Trouble that may pass."""

  def __init__(self, why: str, after: float = 0.0, offline: bool = False):
    """Why; in how many seconds to ask again; whether nobody is there at all."""
    super().__init__(why)
    self.after, self.offline = after, offline


def of_connection(endpoint: Endpoint, error: Exception) -> Exception:
  """What a connection that failed comes to."""
  connecting = isinstance(error, urllib.error.URLError)
  reason = error.reason if connecting else error
  if isinstance(reason, ssl.SSLCertVerificationError):
    return EndpointError(
      f"{endpoint.place} shows no certificate that is trusted"
      f" ({reason.verify_message})"
    )
  if isinstance(reason, TimeoutError):
    return PassingError(
      f"no reply within {endpoint.timeout:g} s", 0, connecting
    )
  broken = ConnectionError | http.client.HTTPException | ssl.SSLError
  if isinstance(reason, broken) and not isinstance(
    reason, ConnectionRefusedError
  ):
    return PassingError("the connection broke")
  told = getattr(reason, "strerror", None) or str(reason)
  return PassingError(" ".join(told.split()), offline=True)


def of_status(endpoint: Endpoint, error, data: bytes) -> Exception:
  """What a status that is no success comes to; `data` is what is said to it."""
  status, place = f"HTTP {error.code}", endpoint.place
  told = status + said(endpoint, data)
  if error.code in _PASSES or error.code >= 500:
    return PassingError(told, _after(error.headers))
  if 300 <= error.code < 400:
    goal = str(error.headers.get("Location", "elsewhere")).partition("?")[0]
    return EndpointError(
      f"{place} sends requests on to {shown(endpoint.hidden(goal))} ({status}):"
      " give the right --judge_url"
    )
  if error.code == 401:  # what is said may hold a part of the key
    return EndpointError(
      f"{place} refuses the key ({status}): give --judge_key=NAME, of the"
      " variable that holds a valid one"
    )
  if error.code == 403:
    return EndpointError(f"{place} does not let this key in ({told})")
  if error.code == 404:
    return EndpointError(
      f"{place} is not there, or has no model {shown(endpoint.model)}"
      f" ({told}): look at --judge_url and --judge_model"
    )
  return EndpointError(f"{place} refuses the request ({told})")


def said(endpoint: Endpoint, data: bytes) -> str:
  """What an endpoint says of its trouble, in a few words; "" if nothing."""
  text = data.decode("utf-8", "replace")
  try:
    text = json.loads(text)["error"]
    text = text["message"]
  except (ValueError, KeyError, TypeError, RecursionError):
    pass
  words = " ".join(endpoint.hidden(str(text)).split())
  words = "".join(one for one in words if one.isprintable())
  return f": {words[:200]}" if words else ""


def _after(headers) -> float:
  """The seconds of Retry-After, which may be a date; 0: it is not there."""
  value = headers.get("Retry-After", "")
  try:
    seconds = float(value)
  except ValueError:
    try:
      date = email.utils.parsedate_to_datetime(value)
      seconds = date.timestamp() - time.time()
    except (ValueError, TypeError, OverflowError):
      return 0.0
  return max(seconds, 0.0) if math.isfinite(seconds) else 0.0
