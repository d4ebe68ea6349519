"""Malformed files, and the error message that each must cause."""

import contextlib

import pytest

from tv_jax.io.errors import UserError


@contextlib.contextmanager
def refused(*fragments):
  """A refusal in one line, which is not a long one, and says this."""
  with pytest.raises(ValueError, match=r"\S") as error:
    yield
  one_line(error, *fragments)


def one_line(error, *fragments):
  """What is refused, in one line."""
  message = str(error.value)
  assert type(error.value) is UserError
  assert "\n" not in message
  assert len(message) < 1000
  for fragment in fragments:
    assert fragment in message, message
