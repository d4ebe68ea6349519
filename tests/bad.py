"""Files that are not what they should be, and how they are refused."""

import os


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


def cut(path):
  """Cuts a file of JSON."""
  path.write_text('{"a": ')


def one_line(error, *fragments):
  """The message of a refusal, which is one line and not a long one."""
  message = str(error.value)
  assert type(error.value) is ValueError
  assert "\n" not in message
  assert len(message) < 1000
  for fragment in fragments:
    assert fragment in message, message
  return message
