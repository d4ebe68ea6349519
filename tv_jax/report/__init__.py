"""What a run found: plots, and the page with the tree explorer."""
