"""The paper's tables and figures: each file makes one, from one command."""
