"""Whether whole generations have the target's law: the engine, end to end."""
