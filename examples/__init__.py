"""Hold programs to read and to run."""
