"""English to German: one sentence, a few of its words explained first."""

import random

from bundled.tasks.conversation import Conversation, single
from bundled.tasks.speech import CLOSING, OPENING, capital, listed, say


def _table(text):
  return [tuple(entry.split("/")) for entry in text.split()]


# English, German, gender.
LIVING = _table("""
man/Mann/m woman/Frau/f child/Kind/n girl/Mädchen/n teacher/Lehrer/m
doctor/Arzt/m baker/Bäcker/m singer/Sänger/m father/Vater/m mother/Mutter/f
brother/Bruder/m sister/Schwester/f daughter/Tochter/f friend/Freund/m
queen/Königin/f king/König/m cook/Koch/m
dog/Hund/m cat/Katze/f horse/Pferd/n cow/Kuh/f bird/Vogel/m pig/Schwein/n
""")
THINGS = _table("""
book/Buch/n letter/Brief/m table/Tisch/m chair/Stuhl/m lamp/Lampe/f
picture/Bild/n house/Haus/n car/Auto/n ship/Schiff/n clock/Uhr/f
key/Schlüssel/m coat/Mantel/m shirt/Hemd/n hat/Hut/m apple/Apfel/m
cake/Kuchen/m bread/Brot/n cheese/Käse/m egg/Ei/n flower/Blume/f stone/Stein/m
knife/Messer/n cup/Tasse/f door/Tür/f
""")
ADJECTIVES = _table("""
old/alt young/jung small/klein big/groß new/neu red/rot black/schwarz green/grün
blue/blau white/weiß friendly/freundlich beautiful/schön quiet/ruhig rich/reich
heavy/schwer happy/glücklich
""")
# What is done to a thing, to anyone, and to nobody.
VERBS = _table("""
buys/kauft/kaufen sees/sieht/sehen finds/findet/finden looks_for/sucht/suchen
paints/malt/malen brings/bringt/bringen hides/versteckt/verstecken
takes/nimmt/nehmen shows/zeigt/zeigen carries/trägt/tragen
""")
MEETINGS = _table("""
sees/sieht/sehen finds/findet/finden looks_for/sucht/suchen hears/hört/hören
loves/liebt/lieben knows/kennt/kennen greets/grüßt/grüßen calls/ruft/rufen
""")
ACTIONS = _table("""
sleeps/schläft/schlafen works/arbeitet/arbeiten sings/singt/singen
dances/tanzt/tanzen plays/spielt/spielen waits/wartet/warten laughs/lacht/lachen
eats/isst/essen swims/schwimmt/schwimmen
""")
PLACES = _table("""
in_the_garden/im_Garten in_the_city/in_der_Stadt in_the_house/im_Haus
at_the_market/auf_dem_Markt in_the_forest/im_Wald at_the_lake/am_See
in_the_kitchen/in_der_Küche in_the_park/im_Park at_the_station/am_Bahnhof
on_the_street/auf_der_Straße
""")
TIMES = _table("""
today/heute now/jetzt often/oft on_Monday/am_Montag in_winter/im_Winter
in_summer/im_Sommer every_day/jeden_Tag sometimes/manchmal
""")
NOMINATIVE = {"m": "der", "f": "die", "n": "das"}
ACCUSATIVE = {"m": "den", "f": "die", "n": "das"}


def _plain(text):
  return text.replace("_", " ")


def _phrase(noun, adjective, articles, notes):
  """A noun with its article and perhaps an adjective, in both languages."""
  english, german, gender = noun
  notes.append((english, german))
  article = articles[gender]
  if adjective is None:
    return f"the {english}", f"{article} {german}"
  notes.append(adjective)
  # After the article the ending is -e, but -en in a masculine accusative.
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
  english = capital(_plain(" ".join(part for part in parts if part))) + "."
  # The verb comes second.
  parts = [who[1], verb[1], what[1], place[1]]
  if when[1]:
    parts = [when[1], verb[1], who[1], what[1], place[1]]
  german = capital(_plain(" ".join(part for part in parts if part))) + "."

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
      a=_plain(a),
      b=_plain(b),
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
  """`to look for` from `looks_for`."""
  first, *rest = verb.split("_")
  for ending, stem in (("rries", "rry"), ("sses", "ss"), ("shes", "sh")):
    if first.endswith(ending):
      first = first.removesuffix(ending) + stem + "s"
  return " ".join([first.removesuffix("s"), *rest])
