"""Input and output: names, files, flags, signals, tables."""
