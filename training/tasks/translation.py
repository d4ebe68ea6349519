"""English to German: a sentence, after explanations of some of its words."""

import random

from training.tasks.conversation import Conversation, single
from training.tasks.speech import CLOSING, OPENING, capital, listed, say
from training.tasks.words import table

# English, German, and a noun's gender.
LIVING, THINGS, ADJECTIVES = (
  table("LIVING"),
  table("OBJECTS"),
  table("ADJECTIVES"),
)
# Verbs with a thing, with a living being, and without an object: English,
# German, and the German infinitive.
VERBS, MEETINGS, ACTIONS = table("VERBS"), table("MEETINGS"), table("ACTIONS")
PLACES, TIMES = table("PLACES"), table("TIMES")
NOMINATIVE = {"m": "der", "f": "die", "n": "das"}
ACCUSATIVE = {"m": "den", "f": "die", "n": "das"}


def _phrase(noun, adjective, articles, notes):
  """A noun with its article and perhaps an adjective, in both languages."""
  english, german, gender = noun
  notes.append((english, german))
  article = articles[gender]
  if adjective is None:
    return f"the {english}", f"{article} {german}"
  notes.append(adjective)
  # After an article, adjectives end in -e, or -en in the masculine accusative.
  ending = "en" if article == "den" else "e"
  return (
    f"the {adjective[0]} {english}",
    f"{article} {adjective[1]}{ending} {german}",
  )


def _maybe(rng, items, chance):
  return rng.choice(items) if rng.random() < chance else None


def conversation(rng: random.Random) -> Conversation:
  """A sentence to translate."""
  notes = []
  adjective = _maybe(rng, ADJECTIVES, 0.6)
  who = _phrase(rng.choice(LIVING), adjective, NOMINATIVE, notes)
  kind = rng.choice([VERBS, VERBS, MEETINGS, ACTIONS])
  verb = rng.choice(kind)
  notes.append((f"to {_infinitive(verb[0])}", verb[2]))
  what = ("", "")
  if kind is not ACTIONS:
    noun = rng.choice(THINGS if kind is VERBS else LIVING)
    what = _phrase(noun, _maybe(rng, ADJECTIVES, 0.6), ACCUSATIVE, notes)
  place = _maybe(rng, PLACES, 1 if kind is ACTIONS else 0.4) or ("", "")
  when = _maybe(rng, TIMES, 0.4) or ("", "")
  notes += [pair for pair in (place, when) if pair[0]]

  parts = [when[0], who[0], verb[0], what[0], place[0]]
  english = capital(" ".join(part for part in parts if part)) + "."
  # In German, the verb comes second.
  parts = [who[1], verb[1], what[1], place[1]]
  if when[1]:
    parts = [when[1], verb[1], who[1], what[1], place[1]]
  german = capital(" ".join(part for part in parts if part)) + "."

  turn = say(
    rng,
    "[Translate [this sentence |]into German:|Translate English to German:|"
    "How do you say this in German?|Please translate into German:|"
    "What is the German for this sentence?] {english}",
    english=english,
  )
  some = rng.sample(notes, rng.randint(2, min(4, len(notes))))
  explained = [
    say(
      rng,
      "[{a} [is|means|becomes|<mood> gives] {b}|the <praise> word {b} is {a}]",
      a=a,
      b=b,
    )
    for a, b in some
  ]
  lead = say(
    rng,
    OPENING
    + "[Word by word|First <mood> the words|Some <look> words first|A few "
    "<praise> notes|The <look> words|To begin <mood>]: {notes}." + CLOSING,
    notes=listed(explained),
  )
  label = say(rng, "[German|Translation|Together|The sentence|In German]")
  return single("translation", turn, lead, label, german, english)


def _infinitive(verb):
  """`look for` from `looks for`."""
  first, *rest = verb.split()
  for ending, stem in (("rries", "rry"), ("sses", "ss"), ("shes", "sh")):
    if first.endswith(ending):
      first = first.removesuffix(ending) + stem + "s"
  return " ".join([first.removesuffix("s"), *rest])
