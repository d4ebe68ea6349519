"""Files that are not what they should be, for every reader alike."""

import gzip
import os

# By what is wrong; each must be refused by the file's name.
CONTENTS = {
  "empty": b"",
  "blank": b" \n",
  "cut": b'{"a": ',
  "no-object": b"[]",
  "null": b"null",
  "text": b'"x"',
  "html": b"<!doctype html>\n<html></html>",
  "pointer": b"version https://git-lfs.github.com/spec/v1\nsize 12\n",
  "deep-list": b"[" * 100_000,
  "deep-object": b'{"a":' * 100_000,
  "zeros": b"\0\0\0",
  "utf-16": '{"a": 1}'.encode("utf-16"),
  "latin": b'{"a": "\xe9"}',
  "gzip": gzip.compress(b"{}"),
  "digits": b'{"vocab_size": ' + b"9" * 5000 + b"}",
  "nan": b'{"a": NaN}',
  "infinity": b'{"a": 1e999}',
  "twice": b'{"a": 1, "a": 2}',
}
PLACES = ("folder", "pipe", "device", "link", "loop")


def place(path, kind):
  """Puts what is no file where a file should be."""
  path.unlink(missing_ok=True)
  match kind:
    case "folder":
      path.mkdir()
    case "pipe":
      os.mkfifo(path)
    case "device":
      path.symlink_to("/dev/zero")
    case "link":
      path.symlink_to("nowhere")
    case "loop":
      path.symlink_to(path.name)


def spoil(path, kind):
  """Spoils a file in one of these ways."""
  if kind in PLACES:
    place(path, kind)
  else:
    path.write_bytes(CONTENTS[kind])


WAYS = [*CONTENTS, *PLACES]


def one_line(error, *fragments):
  """The message of a refusal, which is one line and not a long one."""
  message = str(error.value)
  assert type(error.value) is ValueError
  assert "\n" not in message
  assert len(message) < 1000
  for fragment in fragments:
    assert fragment in message, message
  return message
