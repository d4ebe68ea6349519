"""Finds the exact law of a Python function's result by trying all outcomes.

A function that draws random numbers is run again and again, once for each path
through its choices. There are two kinds of choices.

- The function draws a token from a law. Each possible token is tried.
- The function compares a uniform u with a number x. An interval represents the
  uniform, at first [0, 1), and x splits the interval. Both parts are tried. For
  example, a function compares u < 0.5 and then u < 0.25:

      [0, 1) -> [0, 0.5)  weight 1/2 -> [0, 0.25)    weight 1/4
                                     -> [0.25, 0.5)  weight 1/4
             -> [0.5, 1)  weight 1/2, where u < 0.25 is always false

The weight of a path is the product over its choices. Every float is converted
to an exact rational, so the weights are exact. The probability of a result is
the sum of the weights of its paths.

Exponential and Gumbel noise is followed too. An argmax of logits and Gumbel
noise, or of a law over exponential noise, is a race of exponential variables. A
comparison of two such variables, E < r F, bounds their ratio. The probability
of a bound, given the earlier bounds, is a rational number (ratios.py).

Any other use of a random number (to print it, to add two of them, to use it as
an index) cannot be split. It is refused, and the error names the line.

A program takes a random number for a float. Where it would see a difference, as
in an error that floats do not raise, its exploration ends with a refusal, even
if it catches the error.

Reading order: paths.py; cells.py, ratios.py and races.py (random numbers);
arrays.py, generators.py (stand-ins for NumPy's and Python's functions);
tensors.py, torch_functions.py (torch); jax_rules.py, jax_tracing.py (JAX);
replaced.py (installs stand-ins); exploring.py. Torch is optional.
"""

from tv_jax.certify.dice.exploring import ExploreError, Law, explore

__all__ = ["ExploreError", "Law", "explore"]
