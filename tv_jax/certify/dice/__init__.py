"""Finds the exact law of a Python function's result by trying all outcomes.

A function that draws random numbers is run again and again, once for each path
through its choices. There are three kinds of choices.

- Fork on a comparison. The function compares a uniform u with a number x. An
  interval represents the uniform, at first [0, 1), and x splits the interval.
  Both parts are tried. For example, a function compares u < 0.5 and then
  u < 0.25:

      [0, 1) -> [0, 0.5)  weight 1/2 -> [0, 0.25)    weight 1/4
                                     -> [0.25, 0.5)  weight 1/4
             -> [0.5, 1)  weight 1/2, where u < 0.25 is always false

- Choose from a distribution. The function draws a token. Each possible token is
  tried.
- Draw a race. An argmax of logits and Gumbel noise, or of a law over
  exponential noise, is a race of exponential variables. Each possible winner is
  tried. A race bounds the ratios of its variables, E >= r F. The probability of
  a bound, given the earlier bounds, is a rational number.

The weight of a path is the product over its choices. Every float is converted
to an exact rational, so the weights are exact. The probability of a result is
the sum of the weights of its paths.

Any other use of a random number (to print it, to add two of them, to use it as
an index) is no choice. It is refused, and the error names the line. A program
takes a random number for a float. Where it would see a difference, as in an
error that floats do not raise, its exploration ends with a refusal, even if it
catches the error.

Reading order:

- paths.py: a run's path; choices.py: the three kinds of choices; ratios.py:
  probabilities of bounds.
- cells.py: random numbers; races.py: the largest of several; operations.py:
  what can be done with them.
- What NumPy, torch and JAX do with arrays of them: arrays.py; tensors.py;
  jax_rules.py and jax_tracing.py.
- What draws them: generators.py (NumPy, Python) and torch_functions.py. In JAX,
  keys do (jax_tracing.py).
- replaced.py installs these; exploring.py runs the function. Torch is optional.
"""

from tv_jax.certify.dice.exploring import ExploreError, Law, explore

__all__ = ["ExploreError", "Law", "explore"]
