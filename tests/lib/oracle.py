"""The paper's algorithms in rational arithmetic, written straight from it.

Weng et al., "Traversal Verification for Speculative Tree Decoding": Algorithm 3
with its deletions and its refreshed acceptance rates, (e1) to (e3) as printed;
Algorithm 2 for token-level verification; block verification from Sun et al.
(2025) and K-SEQ from its paper. Slow, exact, and independent: this file shares
nothing with the package, not even constants.

A tree is a list of parents (-1 for the root, parents before children, siblings
in draw order). A token of -1 could not be drawn: its node is not in the tree,
and nothing below it is. Laws are tuples of `Fraction`.
"""

import dataclasses
import functools
from fractions import Fraction

ROOT = 0
NONE = -1  # the root's parent, and the token of a node that was not drawn


@dataclasses.dataclass(frozen=True)
class Draft:
  """One drafted tree: q[v] and p[v] are the laws of the token after v."""

  parents: tuple
  tokens: tuple
  q: tuple
  p: tuple
  proposal: str


@dataclasses.dataclass(frozen=True)
class Offer:
  """A node, the chance to accept it, and the bonus token's law if so."""

  node: int
  threshold: Fraction
  residual: tuple


def norm(weights):
  """Weights over their sum; all zeros stay."""
  total = sum(weights)
  return tuple(w / total for w in weights) if total else tuple(weights)


def surplus(a, b):
  """[a - b]_+."""
  return tuple(max(x - y, Fraction(0)) for x, y in zip(a, b, strict=True))


def times(factor, law):
  return tuple(factor * x for x in law)


# How siblings are drawn.


def likeliest_first(q):
  return sorted(range(len(q)), key=lambda x: (-q[x], x))


def one_hot_of_rank(q, rank):
  law = [Fraction(0)] * len(q)
  if rank < len(q):
    best = likeliest_first(q)[rank]
    law[best] = Fraction(int(q[best] > 0))
  return tuple(law)


def next_law(proposal, q, drawn, k):
  """The law of the next of `k` siblings after those drawn; zeros if none."""
  if proposal == "with_replacement":
    return q
  if proposal == "without_replacement":
    return norm([0 * q[x] if x in drawn else q[x] for x in range(len(q))])
  if proposal == "top_k":
    return one_hot_of_rank(q, len(drawn))
  if proposal == "sample_then_top":
    if drawn:
      return one_hot_of_rank(q, len(drawn) - 1)
    top = likeliest_first(q)[: k - 1]
    return norm([0 * q[x] if x in top else q[x] for x in range(len(q))])
  raise ValueError(proposal)


def children_of(parents, node):
  return [child for child, parent in enumerate(parents) if parent == node]


def depths(parents):
  depth = [0]
  for parent in parents[1:]:
    depth.append(depth[parent] + 1)
  return depth


def drawn_from(draft):
  """{node: the law that its token was drawn from} for the nodes in the tree.

  A node is left out if it has no token, or if its token could not be drawn.
  """
  laws, inside = {}, {ROOT}
  for node in range(len(draft.parents)):
    siblings = children_of(draft.parents, node)
    drawn = []
    for child in siblings:
      token = draft.tokens[child]
      law = next_law(draft.proposal, draft.q[node], drawn, len(siblings))
      drawn.append(token)
      if node in inside and token != NONE and law[token] > 0:
        inside.add(child)
        laws[child] = law
  return laws


# Algorithm 3.


class _Tree:
  """T of Algorithm 3, with the numbers that it carries at each node."""

  def __init__(self, draft):
    self.tokens = draft.tokens
    self.laws = drawn_from(draft)
    inside = {ROOT, *self.laws}
    self.parent = {v: draft.parents[v] for v in inside}
    self.children = {
      v: [c for c in children_of(draft.parents, v) if c in inside]
      for v in inside
    }
    self.rate = {ROOT: Fraction(1)}  # p_alpha
    self.target = {v: draft.p[v] for v in inside}  # M_b(. | v)
    self.update_rates_below(ROOT)

  def draft_law(self, node):
    """M_s(. | node): the law of the first child that is still there.

    For siblings drawn without replacement this is (e2).
    """
    return self.laws[self.children[node][0]]

  def update_rates_below(self, node):
    """Line 13; a rate that cannot be used before its next update may be 0."""
    for child in self.children[node]:
      token, law = self.tokens[child], self.draft_law(node)
      ratio = self.target[node][token] / law[token] if law[token] else 0
      self.rate[child] = min(self.rate[node] * ratio, Fraction(1))
      self.update_rates_below(child)

  def first_leaf(self):
    node = ROOT
    while self.children[node]:
      node = self.children[node][0]
    return node

  def delete(self, leaf):
    """Lines 10 to 13."""
    node = self.parent[leaf]
    rate, law = self.rate[node], self.draft_law(node)
    self.children[node].remove(leaf)
    left = surplus(times(rate, self.target[node]), law)
    s = sum(left)
    if s + 1 - rate == 0:  # M_b = M_s, accepted for certain: (e3) is 0 / 0
      return self.update_rates_below(node)
    if s > 0:
      self.target[node] = norm(left)  # (e1)
    self.rate[node] = s / (s + 1 - rate)  # (e3)
    return self.update_rates_below(node)


@functools.cache
def traversal_offers(draft):
  """Algorithm 3 with every coin rejected: its offers, the root's last."""
  tree, offers = _Tree(draft), []
  while (leaf := tree.first_leaf()) != ROOT:
    offers.append(Offer(leaf, tree.rate[leaf], tree.target[leaf]))
    tree.delete(leaf)
  return (*offers, Offer(ROOT, Fraction(1), tree.target[ROOT]))


# Algorithm 2, at every node.


@functools.cache
def token_level_offers(draft, node):
  """Algorithm 2 below one node, every coin rejected; the node itself last."""
  laws, target, offers = drawn_from(draft), draft.p[node], []
  for child in children_of(draft.parents, node):
    if child in laws:
      token, law = draft.tokens[child], laws[child]
      ratio = target[token] / law[token]
      offers.append(Offer(child, min(ratio, Fraction(1)), draft.p[child]))
      left = surplus(target, law)
      target = norm(left) if sum(left) else target
  return (*offers, Offer(node, Fraction(1), target))


# Block verification.


@functools.cache
def block_offers(draft):
  """[(i, h_i, residual)] from the chain's end to its start."""
  laws = drawn_from(draft)
  chain = [ROOT, *sorted(laws)]
  reach = [Fraction(1)]
  for node in chain[1:]:
    above, token = draft.p[node - 1], draft.tokens[node]
    reach.append(min(reach[-1] * above[token] / laws[node][token], Fraction(1)))
  end = chain[-1]
  offers = [Offer(end, reach[end], draft.p[end])]
  for i in reversed(chain[:-1]):
    left = surplus(times(reach[i], draft.p[i]), laws[i + 1])
    A = sum(left)
    certain = reach[i] == 1 and A == 0
    h = Fraction(1) if certain else A / (A + 1 - reach[i])
    offers.append(Offer(i, h, norm(left) if A else draft.p[i]))
  return tuple(offers)


# K-SEQ.


@functools.cache
def k_seq_offers(draft, node):
  """SpecTr's rule below one node, every coin rejected; the node itself last."""
  laws, p, q = drawn_from(draft), draft.p[node], draft.q[node]
  children = [c for c in children_of(draft.parents, node) if c in laws]
  k = len(children)
  if not k:
    return (Offer(node, Fraction(1), p),)

  def sides(rho):
    b = sum(min(x / rho, y) for x, y in zip(p, q, strict=True))
    return 1 - (1 - b) ** k, rho * b

  low, high = Fraction(1), Fraction(k)
  for _ in range(60):  # the largest root, from above
    middle = (low + high) / 2
    hit, enough = sides(middle)
    low, high = (low, middle) if hit <= enough else (middle, high)
  rho = high
  hit, _ = sides(rho)
  b = sum(min(x / rho, y) for x, y in zip(p, q, strict=True))
  share = hit / b if b else 0
  left = surplus(
    p, [min(x / rho, y) * share for x, y in zip(p, q, strict=True)]
  )
  offers = []
  for child in children:
    token = draft.tokens[child]
    ratio = p[token] / (rho * q[token])
    offers.append(Offer(child, min(ratio, Fraction(1)), draft.p[child]))
  residual = norm(left) if sum(left) > Fraction(1, 10**15) else p
  return (*offers, Offer(node, Fraction(1), residual))


# What a method does with a draft.

IN_ORDER = {"traversal": traversal_offers, "block": block_offers}
DOWN = {"token_level": token_level_offers, "k_seq": k_seq_offers}


def decide(draft, method, eta):
  """(node, residual, {node: threshold} of the coins tossed)."""
  node, tossed = ROOT, {}
  for offer in IN_ORDER[method](draft) if method in IN_ORDER else ():
    if offer.node == ROOT:
      return ROOT, offer.residual, tossed
    tossed[offer.node] = offer.threshold
    if eta[offer.node] < offer.threshold:
      return offer.node, offer.residual, tossed
  while True:
    for offer in DOWN[method](draft, node):
      if offer.node == node:
        return node, offer.residual, tossed
      tossed[offer.node] = offer.threshold
      if eta[offer.node] < offer.threshold:
        node = offer.node
        break


def stop_law(draft, method):
  """{node: the chance that it is the accepted one}."""
  if method not in DOWN:
    law, left = {}, Fraction(1)
    for offer in IN_ORDER[method](draft):
      law[offer.node] = left * offer.threshold
      left *= 1 - offer.threshold
    return law
  law, reach = {}, {ROOT: Fraction(1)}
  for node in range(len(draft.parents)):
    left = reach.get(node, Fraction(0))
    for offer in DOWN[method](draft, node)[:-1]:
      reach[offer.node] = left * offer.threshold
      left *= 1 - offer.threshold
    law[node] = left
  return law


def residual_at(draft, method, node):
  """The law of the bonus token if `node` is accepted."""
  if method in DOWN:
    return DOWN[method](draft, node)[-1].residual
  return next(o.residual for o in IN_ORDER[method](draft) if o.node == node)


def rates_of_first_chain(draft):
  """[(node, p_ini)] along the chain of first children."""
  tree, node, rates = _Tree(draft), ROOT, []
  while tree.children[node]:
    node = tree.children[node][0]
    rates.append((node, tree.rate[node]))
  return rates


# Averages over drafts. A language is a pair of functions from a tuple of tokens
# to a law: the draft's and the target's law of the token that comes next.


def drafts(parents, proposal, language):
  """Every draft and its chance: [(Fraction, Draft)]."""
  draft_law, target_law = language
  uniform = norm([Fraction(1)] * len(draft_law(())))
  size = len(parents)

  def contexts(tokens):
    context: dict[int, tuple | None] = {ROOT: ()}
    for node in range(1, len(tokens)):
      above = context[parents[node]]
      if above is None or tokens[node] == NONE:
        context[node] = None
      else:
        context[node] = (*above, tokens[node])
    return context

  def grow(tokens):
    node = len(tokens)
    if node == size:
      yield Fraction(1), tokens
      return
    parent = parents[node]
    siblings = children_of(parents, parent)
    above = contexts(tokens)[parent]
    law = ()
    if above is not None:
      drawn = [tokens[c] for c in siblings if c < node]
      law = next_law(proposal, draft_law(above), drawn, len(siblings))
    choices = [(x, chance) for x, chance in enumerate(law) if chance > 0]
    for token, chance in choices or [(NONE, Fraction(1))]:
      for rest, whole in grow((*tokens, token)):
        yield chance * rest, whole

  for chance, tokens in grow((NONE,)):
    context = contexts(tokens)
    laws = [
      (uniform, uniform) if c is None else (draft_law(c), target_law(c))
      for c in (context[v] for v in range(size))
    ]
    q, p = zip(*laws, strict=True)
    yield chance, Draft(tuple(parents), tokens, q, p, proposal)


def path_tokens(draft, node):
  path = []
  while node != ROOT:
    path.append(draft.tokens[node])
    node = draft.parents[node]
  return tuple(reversed(path))


def continuation_law(target_law, context, length):
  """{tokens: chance} of the next `length` tokens."""
  law: dict[tuple, Fraction] = {(): Fraction(1)}
  for _ in range(length):
    law = {
      (*tokens, x): chance * step
      for tokens, chance in law.items()
      for x, step in enumerate(target_law((*context, *tokens)))
      if step
    }
  return law


def output_law(parents, proposal, language, method):
  """{tokens: chance} of the first depth + 1 tokens that decoding yields.

  One cycle, its accepted path and bonus token continued by the target: Z of
  Lemma 1, one token longer, so that the bonus after a full path is judged too.
  """
  length = max(depths(parents)) + 1
  law = {}
  for chance, draft in drafts(parents, proposal, language):
    for node, stop in stop_law(draft, method).items():
      if not stop:
        continue
      path = path_tokens(draft, node)
      residual = residual_at(draft, method, node)
      for token, bonus in enumerate(residual):
        if not bonus:
          continue
        start = (*path, token)
        rest = continuation_law(language[1], start, length - len(start))
        for tokens, after in rest.items():
          whole = (*start, *tokens)
          law[whole] = law.get(whole, 0) + chance * stop * bonus * after
  return law


def target_output_law(parents, language):
  return continuation_law(language[1], (), max(depths(parents)) + 1)


def random_language(rng, vocabulary, denominator=12, zeros=0.2):
  """Laws that depend on the whole context, from a `random.Random`."""

  def law_of_length(seed):
    @functools.cache
    def law(context):
      dice = type(rng)(f"{seed} {context}")
      weights = [
        0 if dice.random() < zeros else dice.randint(1, denominator)
        for _ in range(vocabulary)
      ]
      weights[dice.randrange(vocabulary)] += 1
      return norm([Fraction(w) for w in weights])

    return law

  return law_of_length(rng.random()), law_of_length(rng.random())
