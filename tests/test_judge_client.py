"""The judge's client against a double: what passes, and what is the end."""

import asyncio
import email.utils
import socket
import time

import pytest

from experiments.judge import client
from experiments.judge.client import (
  PATIENCE,
  EndpointError,
  UnansweredError,
  endpoint,
)
from tests import judges
from tests.judges import KEY, MODEL, NAME, double, reply, scripted, trouble
from tests.stores import one_line

pytestmark = pytest.mark.judge

CHAT = [{"role": "user", "content": "How good is “that”?"}]


@pytest.fixture(autouse=True)
def key(monkeypatch):
  monkeypatch.setenv(NAME, KEY)
  monkeypatch.setenv("no_proxy", "*")


@pytest.fixture
def slept():
  return []


def place(url, timeout=10.0):
  return endpoint(url, MODEL, NAME, timeout)


def ask(place, slept, chat=CHAT):
  """The reply; waits that are none are noted."""

  async def sleep(seconds):
    slept.append(seconds)

  async def asked():
    async with place.connect() as connection:
      return await client.ask(connection, place, chat, sleep)

  return asyncio.run(asked())


def asked(slept, *script, timeout=10.0):
  """The reply after a double's script, and what it was asked."""
  with double(scripted(*script)) as server:
    return ask(place(server.url, timeout), slept), server.asked


def refused(error, slept, *script, **options):
  """The one line that it ends with, and how often was asked before."""
  with double(scripted(*script)) as server:
    with pytest.raises(error) as caught:
      ask(place(server.url, **options), slept)
    assert KEY not in one_line(caught)
    return one_line(caught), len(server.asked)


def test_a_question_and_its_reply(slept):
  found, ((path, headers, body),) = asked(slept, reply("Fine: [[8]]"))
  assert found == ("Fine: [[8]]", "stop", f"{MODEL}-2026")
  assert path == "/v1/chat/completions"
  assert body == {"model": MODEL, "messages": CHAT, "temperature": 0}
  assert headers["Authorization"] == f"Bearer {KEY}"
  assert slept == []


def test_no_key_is_sent_where_none_is_given(slept, monkeypatch):
  monkeypatch.setenv("OPENAI_API_KEY", "another endpoint's")
  with double() as server:
    ask(endpoint(server.url, MODEL), slept)
  assert "Authorization" not in server.asked[0][1]


@pytest.mark.parametrize(
  "bad",
  [
    *(trouble(status) for status in (408, 429, 500, 502, 503, 529)),
    (200, {}, b""),
    (200, {}, b" \n"),
    (200, {}, b'{"choices": [{"mess'),
    (200, {}, b"<html>busy</html>"),
    (200, {}, b"\xff\xfe"),
    (200, {}, b"[" * 100_000),
    (200, {}, b"[]"),
    (200, {}, b"{}"),
    (200, {}, b"null"),
    (200, {}, b'{"choices": []}'),
    (200, {}, b'{"choices": [{"message": null}]}'),
    (200, {}, b'{"choices": [{"message": {"content": 7}}]}'),
    (200, {}, b'{"error": {"message": "overloaded"}}'),
    (200, {"Content-Encoding": "gzip"}, b"no gzip"),
    *(
      (n, {"Content-Type": "text/plain; charset=hex"}, b"7") for n in (200, 503)
    ),
    judges.reset,
    judges.drop,
    judges.cut_short,
  ],
  ids=lambda bad: getattr(bad, "__name__", None) or f"{bad[0]} {bad[2][:20]}",
)
def test_what_may_pass_is_asked_again(bad, slept):
  found, requests = asked(slept, bad, bad, reply())
  assert found.text == "Good. [[7]]"
  assert len(requests) == 3
  assert 0.5 <= slept[0] <= 1 <= slept[1] <= 2


@pytest.mark.parametrize(
  "bad",
  [judges.hang, *judges.ENDLESS.values()],
  ids=["hang", *judges.ENDLESS],
)
def test_a_reply_that_does_not_come_is_asked_for_again(bad, slept):
  begin = time.monotonic()
  found, requests = asked(slept, bad, reply(), timeout=0.3)
  assert (found.text, len(requests)) == ("Good. [[7]]", 2)
  assert time.monotonic() - begin < 5


@pytest.mark.parametrize(
  ("script", "told"),
  [
    ([trouble(503, "later")], "HTTP 503: later"),
    ([trouble(429), (200, {}, b"")], "a reply that is none: empty"),
    ([(200, {}, b'{"error": "no money"}')], "that is none: no money"),
    ([judges.reset], "the connection broke"),
  ],
)
def test_it_is_not_asked_for_ever(script, told, slept):
  line, count = refused(UnansweredError, slept, *script)
  assert told in line
  assert line.endswith("(6 attempts)")
  assert count == 6
  assert len(slept) == 5
  for number, seconds in enumerate(slept):
    assert 2**number / 2 <= seconds <= 2**number


def test_pauses_differ_and_end_growing():
  pauses = {client.pause(20) for _ in range(20)}
  assert len(pauses) > 1
  assert max(pauses) <= client.LONGEST


@pytest.mark.parametrize(
  ("after", "least", "most"),
  [
    ("7", 7, 8.5),
    ("0.25", 0.25, 1.5),
    (100, 90, 101.5),
    (-100, 0, 1.5),
    *((odd, 0, 1.5) for odd in ("-5", "soon", "nan", "-inf", "-1e300", "")),
  ],
)
def test_it_waits_as_long_as_it_is_told_to(after, least, most, slept):
  if isinstance(after, int):  # a date so many seconds from now
    after = email.utils.formatdate(time.time() + after, usegmt=True)
  asked(slept, trouble(429, Retry_After=after), reply())
  (seconds,) = slept
  assert least <= seconds <= most


@pytest.mark.parametrize(
  "after",
  [str(int(PATIENCE) + 1), "1e300", "9" * 400, "inf", "1_000", 86400 * 365],
)
def test_it_does_not_wait_for_hours(after, slept):
  if isinstance(after, int):
    after = email.utils.formatdate(time.time() + after, usegmt=True)
  busy = trouble(429, "daily quota", Retry_After=after)
  line, count = refused(EndpointError, slept, busy)
  assert line.endswith(
    "/v1/chat/completions wants no requests for more than 300 s (HTTP 429:"
    " daily quota): give the same command later"
  )
  assert (count, slept) == (1, [])


@pytest.mark.parametrize(
  ("bad", "told"),
  [
    (
      trouble(401, f"bad key {KEY[:9]}***"),
      "refuses the request (HTTP 401): give --judge_key=",
    ),
    (
      trouble(403, f"{KEY} is of another land"),
      "the request (HTTP 403: [key] is",
    ),
    (
      trouble(404, "no such model"),
      "(HTTP 404: no such model): look at --judge_url",
    ),
    (
      trouble(400, "a\nlong\tone"),
      "the request (HTTP 400: a long one)",
    ),
    ((402, {}, b"<p>pay</p>"), "refuses the request (HTTP 402: <p>pay</p>)"),
    ((413, {}, b""), "refuses the request (HTTP 413)"),
  ],
)
def test_what_cannot_pass_is_the_end_at_once(bad, told, slept):
  line, count = refused(EndpointError, slept, bad)
  assert told in line
  assert KEY[:9] not in line
  assert (count, slept) == (1, [])


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_nobody_else_is_sent_the_key(status, slept):
  with double() as other:
    goal = f"{other.url}/v1/chat/completions?secret"
    line, _ = refused(EndpointError, slept, trouble(status, "", Location=goal))
    assert f"it sends on to {other.url}/v1" in line
    assert "secret" not in line
    assert other.asked == []


def unused():
  """A port of nobody's."""
  with socket.socket() as one:
    one.bind(("127.0.0.1", 0))
    return one.getsockname()[1]


def test_a_refused_connection_is_the_end_after_all_attempts(slept):
  url = f"http://127.0.0.1:{unused()}"
  with pytest.raises(EndpointError) as caught:
    ask(place(url), slept)
  assert one_line(caught) == (
    f"{url}/v1/chat/completions cannot be reached: Connection refused"
    " (6 attempts)"
  )
  assert len(slept) == 5


def test_a_name_that_nobody_knows_is_the_end(slept, monkeypatch):
  def nobody(*_, **__):
    raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

  monkeypatch.setattr(socket, "getaddrinfo", nobody)
  with pytest.raises(EndpointError) as caught:
    ask(place("https://judge.invalid"), slept)
  assert "reached: Name or service not known (6 attempts)" in one_line(caught)


@pytest.mark.parametrize(
  ("content", "text"),
  [
    (None, ""),
    ("", ""),
    ([{"type": "thinking"}, {"type": "text", "text": "[[4]]"}], "[[4]]"),
    (f"Your key is {KEY}", "Your key is [key]"),
  ],
)
def test_what_a_judge_says(content, text, slept):
  found, _ = asked(slept, reply(content))
  assert found.text == text


@pytest.mark.parametrize(
  ("url", "told"),
  [("http://[v1.a]:1", "[v1.a]"), ("http://h/" + "a" * 70_000, "URL too long")],
)
def test_a_url_that_no_client_takes_is_one_line(url, told):
  with pytest.raises(ValueError, match="there is no client for") as caught:
    endpoint(url, MODEL).connect()
  assert told in one_line(caught)
  assert len(one_line(caught)) < 400


def test_odd_words_beside_a_reply_are_left_out(slept):
  found, _ = asked(slept, reply("[[5]]", model=17))
  assert found == ("[[5]]", "stop", "")


def test_text_of_any_kind_is_sent(slept):
  texts = ["日本語 🦊", "\ud83d half a pair", "\u2028\0"]
  sent = [texts[0], "? half a pair", texts[2]]
  with double() as server:
    for text in texts:
      chat = [{"role": "user", "content": text}]
      ask(place(server.url), slept, chat)
  assert [b["messages"][0]["content"] for *_, b in server.asked] == sent
