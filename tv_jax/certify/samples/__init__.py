"""Whether samples of any engine have the target's law."""
