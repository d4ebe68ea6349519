"""Tests whether generated texts have the target's distribution."""
