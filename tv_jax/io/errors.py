"""The error that commands print as one line."""


class UserError(ValueError):
  """A mistake of the caller; its message names the value and the remedy."""
