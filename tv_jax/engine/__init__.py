"""The engine: a pair, a config, the cycle, a batch; prompts in, tokens out."""
