"""A dialogue with someone who has a trade."""

import random

from bundled.tasks.speech import CLOSING, OPENING, article, say
from bundled.tasks.words import FIRST_NAMES, TOWNS

# What each job does, works with, and where.
JOBS = {
  "baker": ("bake bread", "oven", "bakery"),
  "farmer": ("grow wheat", "tractor", "farm"),
  "tailor": ("sew coats", "needle", "workshop"),
  "painter": ("paint walls", "brush", "studio"),
  "carpenter": ("build tables", "saw", "workshop"),
  "fisherman": ("catch fish", "net", "harbour"),
  "gardener": ("plant roses", "spade", "garden"),
  "doctor": ("treat patients", "stethoscope", "hospital"),
  "teacher": ("explain things", "blackboard", "school"),
  "pilot": ("fly planes", "cockpit", "airport"),
  "barber": ("cut hair", "scissors", "salon"),
  "cook": ("make soup", "pan", "kitchen"),
  "astronomer": ("watch stars", "telescope", "observatory"),
  "librarian": ("lend books", "catalogue", "library"),
  "mechanic": ("repair cars", "wrench", "garage"),
  "writer": ("write novels", "typewriter", "study"),
  "drummer": ("play music", "drum", "theatre"),
  "shepherd": ("guard sheep", "dog", "meadow"),
  "miner": ("dig for coal", "lamp", "mine"),
  "postman": ("bring letters", "bicycle", "post office"),
}


def character(rng: random.Random):
  """Someone introduces himself, then is asked about his work."""
  job = rng.choice(list(JOBS))
  work, tool, place = JOBS[job]
  name, town = rng.choice(FIRST_NAMES), rng.choice(TOWNS)
  slots = {
    "job": job,
    "a_job": article(job),
    "name": name,
    "town": town,
    "work": work,
    "tool": tool,
    "place": place,
  }
  first = say(
    rng,
    "[Pretend to be|Imagine you are|Play the part of|Speak as] {name}, "
    "{a_job} from {town}. [Introduce yourself|Say who you are|"
    "Tell me about yourself].",
    **slots,
  )
  intro = say(
    rng,
    "[Hello|Good morning|Welcome|Good day|Hi there][!|.] [[I am|My name is|"
    "People call me] {name}, and [I come from|my home is|I grew up in|"
    "I live in] <look> {town}|[I was born|I have lived all my <look> life] in "
    "{town}, and [my name is|they call me] {name}]. "
    "[[Every|Each] <look> day|All year|From morning to night|Most of the time] "
    "I {work} [for [my <look> neighbours|people|the whole <look> town]|<mood>|"
    "with [great|<look>] [care|joy|patience]|and my <who> [loves|enjoys] it]. "
    "[It is <praise> work[, but never <look>|]|I learned it from "
    "[my|a <look>] <who>|I have done so for [ten|twenty|many] years"
    "[, <mood>|, and my <who> <does>|]].",
    **slots,
  )
  key = rng.choice(["tool", "place"])
  second = say(
    rng,
    "[And|Tell me,|Interesting, but] [what do you work with|which tool do you "
    "need most|what do you use most]?"
    if key == "tool"
    else "[And|Tell me,|Interesting, but] [where do you work|in what place do "
    "you spend your days|where can I find you]?",
  )
  more = say(
    rng,
    OPENING
    + (
      "[To {work}, I <mood> [need|use] [[a|my] <look> {tool}|the {tool} most "
      "of all]|[Without|A {job} without] a <look> {tool} [nobody can|could "
      "not] {work}|My <look> {tool} is [as old as I am|my <praise> friend|"
      "always with me|a gift from my <who>]]."
      if key == "tool"
      else "[I <mood> {work} in the [<look> |]{place} [of {town}|near the "
      "<look> river|behind a <look> church|at the end of a <look> road]|"
      "[Come to|Look "
      "for me in|You will find me in] the <look> {place}[, any day|, but come "
      "<mood>|, even in winter|]]."
    )
    + CLOSING,
    **slots,
  )
  lines = (f"{name} the {job}", slots[key])
  facts = f"{name} the {job} from {town}, {key}"
  return (first, second), (intro, more), lines, None, facts
