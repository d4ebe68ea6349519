"""Questions about countries and animals, answered from memory."""

import random
from typing import NamedTuple

from training.tasks.conversation import Conversation, single
from training.tasks.speech import (
  CLOSING,
  OPENING,
  article,
  capital,
  listed,
  say,
)
from training.tasks.words import table


class Country(NamedTuple):
  """A country and the facts that are asked about it."""

  name: str
  capital: str
  continent: str
  language: str  # the official language, or the most spoken


class Animal(NamedTuple):
  """An animal and the facts that are asked about it."""

  name: str
  kind: str
  home: str
  food: str


COUNTRIES = [Country(*row) for row in table("COUNTRIES")]
ANIMALS = [Animal(*row) for row in table("ANIMALS")]

# Questions about each fact of a country or an animal.
COUNTRY_QUESTIONS = {
  "capital": "[What is the capital of {name}|Which city is the capital of "
  "{name}|Name the capital of {name}]",
  "continent": "[On which continent is {name}|Which continent does {name} "
  "belong to]",
  "language": "[Which language is spoken in {name}|What language do people "
  "in {name} speak]",
}
ANIMAL_QUESTIONS = {
  "kind": "[What kind of animal is {a_name}|Which class of animals does "
  "{a_name} belong to]",
  "home": "[Where does {a_name} live|Where would you look for {a_name}]",
  "food": "[What does {a_name} eat|What is the food of {a_name}]",
}


def _about_country(rng, country):
  """A remark with a true fact."""
  return say(
    rng,
    "[{name}, a <praise> country, [is|lies] in {continent}|"
    "its <look> capital is {capital}|"
    "the <look> capital of {name} is {capital}|{capital} is the <look> capital "
    "of {name}|many <look> people [there|in {name}] speak {language}|"
    "{language} is <mood> spoken in {name}]",
    **country._asdict(),
  )


def _about_animal(rng, animal):
  return say(
    rng,
    "[{a_name} is {a_kind}, <look> and <look>|[we <mood> find it|you can see "
    "it|its home is] in the <look> {home}|[it|{a_name}] <mood> [eats|takes|"
    "lives on] {food}]",
    **animal._asdict(),
  )


def _direct(rng):
  """A fact about a country or animal; another is only mentioned."""
  countries = COUNTRIES, COUNTRY_QUESTIONS, _about_country, ""
  animals = ANIMALS, ANIMAL_QUESTIONS, _about_animal, "the "
  pool, questions, about, the = countries if rng.random() < 0.5 else animals
  subject, other = rng.sample(pool, 2)
  key = rng.choice(list(questions))
  question = say(rng, questions[key], name=subject.name)
  remark, again = about(rng, subject), about(rng, other)
  second = f"{the}{other.name}"
  tail = say(
    rng,
    "? [Compare it with|Also mention|Say a word about] {other}.",
    other=second,
  )
  steps = say(
    rng,
    "{remark}. [As for|Of] {other}: {again}.",
    remark=capital(remark),
    other=second,
    again=again,
  )
  facts = f"{key} of {subject.name} beside {other.name}"
  return question + tail, steps, getattr(subject, key), facts


def _through_capital(rng):
  """The language or continent of the country with a given capital."""
  subject, other = rng.sample(COUNTRIES, 2)
  key = rng.choice(["language", "continent"])
  question = say(
    rng,
    "[Which language is spoken in|What do people speak in]"
    if key == "language"
    else "[On which continent is|Which continent holds]",
  )
  question += say(
    rng,
    " the country whose capital is {capital}[, not to be confused with|"
    ", unlike] {other}?",
    capital=subject.capital,
    other=other.capital,
  )
  steps = say(
    rng,
    "{capital} is the capital of {name}, [while|and] {second} is [that|the "
    "capital] of {other}. {remark}.",
    capital=subject.capital,
    name=subject.name,
    second=other.capital,
    other=other.name,
    remark=capital(_about_country(rng, subject)),
  )
  facts = f"{key} by {subject.capital} unlike {other.capital}"
  return question, steps, getattr(subject, key), facts


def _which(rng):
  """The country or animal among three that has a given property."""
  countries = rng.random() < 0.5
  pool = COUNTRIES if countries else ANIMALS
  key = rng.choice(["continent"] if countries else ["kind", "home"])
  subject = rng.choice(pool)
  wanted = getattr(subject, key)
  rest = [other for other in pool if getattr(other, key) != wanted]
  three = [subject, *rng.sample(rest, 2)]
  rng.shuffle(three)
  test = {
    "continent": f"is in {wanted}",
    "kind": f"is {article(wanted)}",
    "home": f"lives in the {wanted}",
  }[key]
  question = say(
    rng,
    "[Which of these {test}: {names}?|Which one {test}, {names}?|"
    "{names}: which of them {test}?]",
    test=test,
    names=listed([other.name for other in three], "or"),
  )
  question = capital(question)
  remark = {
    "continent": "{name} [is|lies] in {continent}",
    "kind": "[{a_name} is|the {name} is] {a_kind}",
    "home": "the {name} lives in the {home}",
  }[key]
  rng.shuffle(three)
  steps = []
  for other in three:
    steps.append(say(rng, remark, **other._asdict()))
    if rng.random() < 0.3:
      about = _about_country if countries else _about_animal
      steps.append(about(rng, other))
  facts = f"{wanted} of {sorted(other.name for other in three)}"
  return question, capital("; ".join(steps)) + ".", subject.name, facts


def conversation(rng: random.Random) -> Conversation:
  """A question."""
  kind = rng.choice([_direct, _through_capital, _which])
  question, steps, answer, facts = kind(rng)
  lead, closing = say(rng, OPENING), say(rng, CLOSING)
  label = say(rng, "[Answer|Answer|The answer|So]")
  return single("qa", question, f"{lead}{steps}{closing}", label, answer, facts)
