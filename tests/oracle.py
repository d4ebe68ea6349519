"""The paper's algorithms in rational arithmetic, written straight from it.

Weng et al., "Traversal Verification for Speculative Tree Decoding": Algorithm 3
with its deletions and its refreshed acceptance rates, (e1) to (e3) as printed;
Algorithm 2 for token-level verification; and block verification (Sun et al.
2025), the layer walk, GBV, K-SEQ and coupled races from formulas of their own.
Slow, exact, and independent: nothing here is shared with the package, not even
constants.

A tree is a list of parents (-1 for the root, parents before children, siblings
in draw order). A token of -1 could not be drawn: its node is not in the tree,
and nothing below it is. Laws are tuples of `Fraction`.
"""

import dataclasses
import functools
import itertools
import math
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

  A node whose token had no chance to be drawn is no more in the tree than one
  that has no token.
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


# The layer walk, with whole laws and without a division by S.


@functools.cache
def layer_walk_offers(draft):
  """Every coin rejected: from the last node of the deepest layer to the root.

  In words of its own: what a node of a layer has left is kept given that all
  children looked at so far were rejected, over pairs of a node and a token, so
  that a rejection is the one step of RRSw on all pairs of the layer at once.
  """
  laws, depth = drawn_from(draft), depths(draft.parents)
  entered = {ROOT: Fraction(1)}  # the chance to end at a node or below it
  left = {}
  for layer in range(max(depth) + 1):
    nodes = [v for v in entered if depth[v] == layer]
    g = {v: times(entered[v], draft.p[v]) for v in nodes}
    none = 1 - sum(entered[v] for v in nodes)
    whole = Fraction(1)
    for child in range(len(draft.parents)):
      if child not in laws or draft.parents[child] not in nodes:
        continue
      v, token = draft.parents[child], draft.tokens[child]
      ratio = min(Fraction(1), g[v][token] / laws[child][token])
      entered[child] = whole * ratio
      whole *= 1 - ratio
      lost = sum(surplus(laws[child], g[v]))
      g[v] = surplus(g[v], laws[child])
      if lost:
        g = {u: times(1 / lost, law) for u, law in g.items()}
        none /= lost
    for v in nodes:
      left[v] = (g[v], none)
  offers, seen = [], {}
  for v in sorted(left):
    law, none = left[v]
    seen[depth[v]] = seen.get(depth[v], none) + sum(law)
    size = seen[depth[v]]
    chance = sum(law) / size if size else Fraction(0)
    residual = norm(law) if sum(law) else draft.p[v]
    offers.append(Offer(v, Fraction(1) if v == ROOT else chance, residual))
  return tuple(offers[::-1])


# Greedy multi-path block verification, by counting.


def greatest_law(draft, nodes, count):
  """The law of the next token of the greatest of `count` paths, given these.

  Of `count` independent paths, all that begin with what was chosen or below it:
  every way that some of them are below, and that the others go on.
  """
  below, equal = Fraction(0), Fraction(1)
  for node, child in zip(nodes, [*nodes[1:], None], strict=True):
    q, p = draft.q[node], draft.p[node]
    # In floats: any order will do, and equals are to be the same ones.
    ratio = [float(p[x]) / (float(q[x]) or 1.0) for x in range(len(q))]
    order = sorted(range(len(q)), key=lambda x: (ratio[x], x))
    upto = {x: sum(q[y] for y in order[: i + 1]) for i, x in enumerate(order)}
    if child is not None:
      token = draft.tokens[child]
      below += equal * (upto[token] - q[token])
      equal *= q[token]
  weights = []
  for x in range(len(q)):
    lower = below + equal * (upto[x] - q[x])
    weights.append(
      sum(  # exactly n of them go on with x, and all others are lower
        math.comb(count, n) * (equal * q[x]) ** n * lower ** (count - n)
        for n in range(1, count + 1)
      )
    )
  return norm(weights), order


@functools.cache
def gbv_offers(draft):
  """Block verification of the greatest path, as a chain of its own."""
  laws = drawn_from(draft)
  alive = {c: c for c in children_of(draft.parents, ROOT) if c in laws}
  count, nodes, chosen_laws = len(alive), [ROOT], []
  while alive:
    law, order = greatest_law(draft, nodes, count)
    best = max(order.index(draft.tokens[c]) for c in alive.values())
    alive = {
      chain: c
      for chain, c in alive.items()
      if order.index(draft.tokens[c]) == best
    }
    nodes.append(next(iter(alive.values())))
    chosen_laws.append(law)
    below = {
      chain: child
      for chain, c in alive.items()
      for child in children_of(draft.parents, c)
      if child in laws
    }
    alive = below
  chain = Draft(
    parents=tuple(range(-1, len(nodes) - 1)),
    tokens=(NONE, *(draft.tokens[v] for v in nodes[1:])),
    q=(*chosen_laws, draft.q[ROOT]),
    p=tuple(draft.p[v] for v in nodes),
    proposal="with_replacement",
  )
  return tuple(
    dataclasses.replace(offer, node=nodes[offer.node])
    for offer in block_offers(chain)
  )


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


# Two races with one noise.


def both_win(q, p, i, j):
  """P(i has the least E_k / q_k and j the least E_k / p_k), E exponential.

  Given E_j / E_i = w, all others must be at least E_i max(q_k / q_i, w p_k /
  p_j): a piece of w between two bends of their sum is integrated at a time.
  """
  if not q[i] * p[j]:
    return Fraction(0)
  if i == j:
    both = zip(q, p, strict=True)
    return 1 / sum(max(x / q[i], y / p[i]) for x, y in both)
  low = q[j] / q[i]
  high = p[j] / p[i] if p[i] else None  # None: there is no end
  if high is not None and high <= low:
    return Fraction(0)
  rest = [k for k in range(len(q)) if k not in (i, j)]

  def rate(w):
    return 1 + w + sum(max(q[k] / q[i], w * p[k] / p[j]) for k in rest)

  bends = {q[k] * p[j] / (q[i] * p[k]) for k in rest if p[k]}
  bends = {w for w in bends if low < w and (high is None or w < high)}
  ends, total = [low, *sorted(bends), high], Fraction(0)
  for a, b in itertools.pairwise(ends):
    if b is None:
      slope, last = rate(a + 1) - rate(a), Fraction(0)
    else:
      slope, last = (rate(b) - rate(a)) / (b - a), 1 / rate(b)
    total += (1 / rate(a) - last) / slope
  return total


@functools.cache
def coupled_offers(draft, node):
  """The race's law given its draft; the node itself last."""
  laws, p = drawn_from(draft), draft.p[node]
  children = [c for c in children_of(draft.parents, node) if c in laws]
  if not children:
    return (Offer(node, Fraction(1), p),)
  (child,) = children
  q, token = laws[child], draft.tokens[child]
  given = times(1 / q[token], [both_win(q, p, token, j) for j in range(len(p))])
  assert sum(given) == 1
  left = [0 * x if j == token else x for j, x in enumerate(given)]
  residual = norm(left) if sum(left) else p
  offer = Offer(child, given[token], draft.p[child])
  return (offer, Offer(node, Fraction(1), residual))


# Any joint plan for siblings, lifted; and plans for pairs.

PAIR_LEAN = 4
_ZETA, _SMALLEST, _LARGEST = map(Fraction, (1e-3, 1e-6, 1e4))


def pair_chances(q):
  """{(x, y): the chance to draw these two}; y is NONE where x is all of q."""
  chances = {}
  for x, first in enumerate(q):
    rest = next_law("without_replacement", q, [x], 2)
    seconds = enumerate(rest) if sum(rest) else [(NONE, Fraction(1))]
    for y, second in seconds:
      if first * second:
        chances[x, y] = first * second
  return chances


def taken_by(plan, chances, V):
  """f: how much of each token a plan {pair: (a_1, a_2)} takes."""
  f = [Fraction(0)] * V
  for pair, chance in chances.items():
    for token, a in zip(pair, plan[pair], strict=True):
      if token != NONE:
        f[token] += chance * a
  return f


def transport_plan(g, chances):
  """As `verifiers/pairs.py` says it, with no step to improve z."""
  V = len(g)

  def share(z):
    plan = {}
    for x, y in chances:
      second = Fraction(0) if y == NONE else z[y]
      whole = _ZETA + PAIR_LEAN * z[x] + second
      plan[x, y] = PAIR_LEAN * z[x] / whole, second / whole
    return plan

  def over(a, b):
    return a / b if b else Fraction(1)

  q = [sum(c for (x, _), c in chances.items() if x == t) for t in range(V)]
  z = [over(a, b) for a, b in zip(g, q, strict=True)]
  z = [min(max(x, _SMALLEST), _LARGEST) for x in z]
  f = taken_by(share(z), chances, V)
  cut = [min(Fraction(1), over(a, b)) for a, b in zip(g, f, strict=True)]
  return {
    (x, y): (a * cut[x], b * cut[y] if y != NONE else Fraction(0))
    for (x, y), (a, b) in share(z).items()
  }


def lifted_offers(draft, make_plan):
  """The traversal with a plan for each two siblings, every coin rejected.

  Args:
    draft: Drawn without replacement.
    make_plan: `(g, chances) -> {pair: (a_1, a_2)}`.
  """
  laws, entered, left = drawn_from(draft), {ROOT: Fraction(1)}, {}
  for node in range(len(draft.parents)):
    chance = entered.get(node, Fraction(0))
    g, none = times(chance, draft.p[node]), 1 - chance
    siblings, drawn = children_of(draft.parents, node), []
    while siblings and siblings[0] in laws:
      own, siblings = siblings[:2], siblings[2:]
      q = next_law("without_replacement", draft.q[node], drawn, 1)
      tokens = [draft.tokens[c] if c in laws else NONE for c in own]
      drawn += tokens
      if len(own) == 1:
        a = [min(Fraction(1), g[tokens[0]] / q[tokens[0]])]
        f = [min(x, y) for x, y in zip(g, q, strict=True)]
      else:
        chances = pair_chances(q)
        plan = make_plan(g, chances)
        a, f = plan[tuple(tokens)], taken_by(plan, chances, len(g))
      before = Fraction(0)
      for child, take in zip(own, a, strict=True):
        if child in laws:
          entered[child] = take / (1 - before) if take else Fraction(0)
        before += take
      rest = surplus(g, f)
      size = sum(rest) + none
      if size:
        g, none = times(1 / size, rest), none / size
    left[node] = g
  offers = []

  def offer(node):
    for child in children_of(draft.parents, node):
      if child in laws:
        offer(child)
    g = left[node]
    residual = norm(g) if sum(g) else draft.p[node]
    threshold = Fraction(1) if node == ROOT else sum(g, Fraction(0))
    offers.append(Offer(node, threshold, residual))

  offer(ROOT)
  return tuple(offers)


@functools.cache
def ot_traversal_offers(draft):
  return lifted_offers(draft, transport_plan)


# What a method does with a draft.

IN_ORDER = {
  "traversal": traversal_offers,
  "block": block_offers,
  "layer_walk": layer_walk_offers,
  "gbv": gbv_offers,
  "ot_traversal": ot_traversal_offers,
}
DOWN = {
  "token_level": token_level_offers,
  "k_seq": k_seq_offers,
  "coupled": coupled_offers,
}


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


def expected_length(parents, proposal, language, method):
  """Tokens gained in one cycle, the bonus token included."""
  depth = depths(parents)
  return sum(
    chance * stop * (depth[node] + 1)
    for chance, draft in drafts(parents, proposal, language)
    for node, stop in stop_law(draft, method).items()
  )


def random_language(rng, vocabulary, denominator=12, zeros=0.2):
  """Laws that depend on the whole context, from a `random.Random`."""

  def law_of_length(seed):
    @functools.cache
    def law(context):
      own = type(rng)(f"{seed} {context}")
      weights = [
        0 if own.random() < zeros else own.randint(1, denominator)
        for _ in range(vocabulary)
      ]
      weights[own.randrange(vocabulary)] += 1
      return norm([Fraction(w) for w in weights])

    return law

  return law_of_length(rng.random()), law_of_length(rng.random())
