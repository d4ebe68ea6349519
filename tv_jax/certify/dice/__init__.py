"""The exact law of what a Python function returns, by trying all outcomes.

A function that draws random numbers is run again and again, once for each path
through its choices. Choices are of two kinds.

- It draws a token from a law: each token of positive chance is tried.
- It compares a uniform u with a number x. A uniform is no number here but an
  interval, at first [0, 1), and x splits it. Both sides are tried, and on each
  the uniform is in what is left. Of u < 0.5, then u < 0.25:

      [0, 1) -> [0, 0.5)  weight 1/2 -> [0, 0.25)    weight 1/4
                                     -> [0.25, 0.5)  weight 1/4
             -> [0.5, 1)  weight 1/2, where u < 0.25 is no choice

The weight of a path is the product over its choices. All numbers are taken as
the rationals that they are, so the weights are exact. The law of what is
returned is the sum of weights over paths.

Noise is the one thing besides. An argmax of logits and Gumbel noise, or of a
law over exponential noise, is a race of exponential variables. Where two of
them are compared, E < r F, the chance of this bound on their ratio, given those
that are known already, is a rational number (ratios.py).

What looks at a random number in another way (prints it, adds two of them, uses
one as an index) cannot be split, and is refused with the line that does it.

In reading order: paths.py, cells.py, ratios.py (random numbers), generators.py
(what stands for NumPy's and Python's functions), tensors.py, torch_functions.py
(torch's), replaced.py (where they are put), exploring.py. It needs NumPy alone;
torch is optional.
"""

from tv_jax.certify.dice.exploring import ExploreError, Law, explore

__all__ = ["ExploreError", "Law", "explore"]
