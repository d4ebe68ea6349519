"""Input and output: commands, names and files."""
