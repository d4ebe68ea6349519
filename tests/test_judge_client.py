"""The judge's client against a double: what passes, and what is the end."""

import asyncio
import time

import pytest

from experiments.judge import client
from experiments.judge.client import EndpointError, UnansweredError, endpoint
from tests import judges
from tests.judges import KEY, MODEL, NAME, double, reply, scripted, trouble
from tests.stores import one_line

pytestmark = pytest.mark.judge

CHAT = [{"role": "user", "content": "How good is “that”?"}]


@pytest.fixture(autouse=True)
def key(monkeypatch):
  monkeypatch.setenv(NAME, KEY)
  monkeypatch.setenv("no_proxy", "*")


def ask(url, chat=CHAT, key=NAME, timeout=10.0):
  """The reply."""
  place = endpoint(url, MODEL, key, timeout)

  async def asked():
    async with place.connect() as connection:
      return await client.ask(connection, place, chat)

  return asyncio.run(asked())


def refused(error, *script, **options):
  """The one line that it ends with, and how often was asked before."""
  with double(scripted(*script)) as server:
    with pytest.raises(error) as caught:
      ask(server.url, **options)
    assert KEY not in one_line(caught)
    return one_line(caught), len(server.asked)


def test_a_question_and_its_reply(monkeypatch):
  with double(lambda body, number: reply("Fine: [[8]]")) as server:
    found = ask(f"{server.url}/v1?version=2")
    monkeypatch.setenv("OPENAI_API_KEY", "another endpoint's")
    ask(server.url, key="")
  (path, headers, body), (_, others, _) = server.asked
  assert found == ("Fine: [[8]]", "stop", f"{MODEL}-2026")
  assert path == "/v1/chat/completions?version=2"
  assert body == {"model": MODEL, "messages": CHAT, "temperature": 0}
  assert headers["Authorization"] == f"Bearer {KEY}"
  assert "Authorization" not in others  # where no key is given


@pytest.mark.parametrize(
  ("content", "fields", "found"),
  [
    (None, {}, ("", "stop", f"{MODEL}-2026")),
    (
      [{"type": "thinking"}, {"type": "text", "text": "[[4]]"}],
      {"model": 17},
      ("[[4]]", "stop", ""),
    ),
    (f"It is {KEY}", {"model": KEY}, ("It is [key]", "stop", "[key]")),
  ],
)
def test_what_a_judge_says(content, fields, found):
  with double(lambda body, number: reply(content, **fields)) as server:
    assert ask(server.url) == found


def test_text_of_any_kind_is_sent():
  texts = ["日本語 🦊", "\ud83d half a pair", "\u2028\0"]
  with double() as server:
    for text in texts:
      ask(server.url, [{"role": "user", "content": text}])
  sent = [body["messages"][0]["content"] for *_, body in server.asked]
  assert sent == [texts[0], "? half a pair", texts[2]]


@pytest.mark.parametrize(
  "bad",
  [
    *(trouble(status) for status in (408, 429, 500, 503)),
    judges.reset,
    judges.cut_short,
    judges.hang,
  ],
  ids=lambda bad: getattr(bad, "__name__", None) or bad[0],
)
def test_what_may_pass_is_asked_again(bad):
  with double(scripted(bad, reply())) as server:
    assert ask(server.url, timeout=0.5).text == "Good. [[7]]"
    assert len(server.asked) == 2


@pytest.mark.parametrize(
  ("bad", "told"),
  [
    (trouble(503, f"later, {KEY}"), "HTTP 503: later, [key]"),
    (trouble(429, "daily quota", **{"Retry-After-Ms": "9e9"}), "429: daily"),
    (judges.reset, "Connection error ("),
    (judges.hang, "Request timed out ("),
    (judges.trickle, "no end of it within 1.4 s"),
    *(
      ((200, {}, body), "a reply that is none (")
      for body in (b"", b'{"choices": [{"mess', b"[" * 100_000, b"[]", b"null")
    ),
    ((200, {}, b'{"choices": [{"message": null}]}'), "a reply that is none ("),
    ((200, {}, b'{"error": {"message": "busy"}}'), "a reply that is none ("),
    ((200, {"Content-Type": "text/html"}, b"<p>busy"), "a reply that is none"),
    ((200, {"Content-Encoding": "gzip"}, b"no gzip"), "Connection error ("),
  ],
)
def test_what_does_not_pass_is_not_asked_for_ever(bad, told, monkeypatch):
  monkeypatch.setattr(client, "RETRIES", 1)
  monkeypatch.setattr(client, "WAITS", 0.5)
  begin = time.monotonic()
  line, count = refused(UnansweredError, bad, timeout=0.2)
  assert told in line
  assert count <= 2
  assert time.monotonic() - begin < 5


@pytest.mark.parametrize(
  ("bad", "told"),
  [
    (trouble(401, f"bad key {KEY[:9]}***"), "(HTTP 401): give --judge_key="),
    (trouble(403, f"{KEY} is out"), "the request (HTTP 403: [key] is out)"),
    (trouble(404, "no such model"), "404: no such model): look at --judge_url"),
    (
      trouble(400, "a\nlong\tone\033"),
      r"the request (HTTP 400: a long one\x1b",
    ),
    ((402, {}, b"<p>pay</p>"), "refuses the request (HTTP 402: <p>pay</p>)"),
    ((413, {}, b""), "refuses the request (HTTP 413)"),
  ],
)
def test_what_cannot_pass_is_the_end_at_once(bad, told):
  line, count = refused(EndpointError, bad)
  assert told in line
  assert KEY[:9] not in line
  assert count == 1


@pytest.mark.parametrize("status", [301, 303, 307, 308])
def test_nobody_else_is_sent_the_key(status):
  with double() as other:
    goal = f"{other.url}/v1/chat/completions?secret"
    line, _ = refused(EndpointError, trouble(status, "", Location=goal))
    assert f"it sends on to {other.url}/v1" in line
    assert "secret" not in line
    assert other.asked == []


def test_a_url_that_no_client_takes_is_one_line():
  with pytest.raises(ValueError, match="there is no client for") as caught:
    endpoint("http://h/" + "a" * 70_000, MODEL).connect()
  assert len(one_line(caught)) < 400
