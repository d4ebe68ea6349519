"""Files that are not what they should be, and how they are refused."""


def one_line(error, *fragments):
  """The message of a refusal, which is one line and not a long one."""
  message = str(error.value)
  assert type(error.value) is ValueError
  assert "\n" not in message
  assert len(message) < 1000
  for fragment in fragments:
    assert fragment in message, message
  return message
