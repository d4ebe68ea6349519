"""What comes in and goes out: names, files, flags, signals."""
