"""Makes the questions of MiniBench, and those that trees are tuned on."""
