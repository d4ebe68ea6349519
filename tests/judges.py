"""A double of a judge's endpoint, and runs with answers for it to grade."""

import contextlib
import http.server
import json
import socket
import struct
import threading

from configs import smoke
from tests.stores import ENVIRONMENT
from tv_jax import runs
from tv_jax.runs import sources
from tv_jax.runs.records import Answer
from tv_jax.runs.store import Store

MODEL = "a-judge"
KEY = "sk-not-to-be-seen-anywhere"
NAME = "JUDGE_KEY_OF_TESTS"

QUESTIONS = (
  {
    "question_id": 81,
    "category": "writing",
    "turns": ["Write a limerick.", "Now without rhymes."],
  },
  {
    "question_id": 111,
    "category": "math",
    "turns": ["What is 6 times 7?", "And 8 times 9?"],
    "reference": ["42", "72"],
  },
  {"question_id": 7, "category": "qa", "turns": ["Who wrote Emma?"]},
)


def reply(content="Good. [[7]]", **fields):
  """A reply of the API's: its status, headers and body."""
  message = {"role": "assistant", "content": content}
  choice = {"index": 0, "message": message, "finish_reason": "stop"}
  body = {"model": f"{MODEL}-2026", "choices": [choice]} | fields
  return 200, {}, json.dumps(body).encode()


def trouble(status, message="so it is", **headers):
  """An error of the API's, after which a client need not wait."""
  headers = {"Retry-After-Ms": "1"} | headers
  return status, headers, json.dumps({"error": {"message": message}}).encode()


def reset(handler):
  """Breaks the connection off, as a proxy that dies."""
  linger = struct.pack("ii", 1, 0)
  handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
  handler.connection.close()


def trickle(handler):
  """Begins with something, continues without an end, and is never late."""
  handler.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
  while not handler.server.ending.wait(0.02):
    handler.wfile.write(b" ")


class Double(http.server.ThreadingHTTPServer):
  """Responds to a request's body and number with what `reply` gives.

  Or with a function that does something to the connection.
  """

  daemon_threads = True

  def __init__(self, respond):
    super().__init__(("127.0.0.1", 0), _Handler)
    self.respond, self.asked = respond, []
    self.ending, self.lock = threading.Event(), threading.Lock()

  @property
  def url(self):
    return f"http://127.0.0.1:{self.server_port}"

  def handle_error(self, *_):
    """Nobody waits for what comes too late."""


class _Handler(http.server.BaseHTTPRequestHandler):
  def do_POST(self):
    size = int(self.headers["Content-Length"])
    body = json.loads(self.rfile.read(size))
    with self.server.lock:
      number = len(self.server.asked)
      self.server.asked.append((self.path, self.headers, body))
    what = self.server.respond(body, number)
    if callable(what):
      what(self)
      return
    status, headers, data = what
    self.send_response(status)
    own = {"Content-Type": "application/json", "Content-Length": len(data)}
    for name, value in (own | headers).items():
      self.send_header(name, str(value))
    self.end_headers()
    self.wfile.write(data)

  def do_GET(self):
    """What a redirected POST would become."""
    self.server.asked.append((self.path, self.headers, {}))
    self.send_error(500)

  def log_message(self, *_):
    """Nothing is told."""


@contextlib.contextmanager
def double(respond=lambda body, number: reply()):
  with Double(respond) as server:
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
      yield server
    finally:
      server.ending.set()
      server.shutdown()
      thread.join()


def scripted(*script):
  """Responds by a script, and with its last line ever after."""
  return lambda body, number: script[min(number, len(script) - 1)]


def finished_run(folder, seeds=(0,), errors=(), **fields):
  """A finished run's folder; errors are (question, turn, verifier)."""
  asked = folder.parent / "questions.jsonl"
  folder.parent.mkdir(parents=True, exist_ok=True)
  asked.write_text("".join(json.dumps(one) + "\n" for one in QUESTIONS))
  config = smoke.get_config()
  given = {"questions": str(asked), "tasks": "", "per_task": 0}
  config.update(given | {"trees": "chain:5", "seeds": seeds} | fields)
  settings = runs.from_config(config)
  questions = runs.read_questions(settings)
  with Store(folder, runs.to_dict(settings), ENVIRONMENT) as store:
    store.keep_sources({"questions": sources.of_questions(questions)})
    for method in runs.grid(settings):
      for question in questions:
        for turn in range(len(question.turns)):
          own = question.question_id, turn
          failed = (*own, method.verifier) in errors
          store.append(
            Answer(
              task=question.task,
              question=question.question_id,
              turn=turn,
              method=method,
              text=f"answer of {method} to {own}",
              error="out of memory" if failed else None,
            )
          )
    store.finish()
  return folder
