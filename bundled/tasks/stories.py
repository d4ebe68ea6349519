"""A dialogue about a short story, and another ending for it."""

import random

from bundled.tasks.speech import article, say, words

HEROES = words("""
fox owl bear rabbit mouse cat dog horse pirate wizard farmer sailor baker tailor
""")
TRAITS = words("""
brave shy clever lazy proud tiny gentle hungry curious sleepy honest cheerful
""")
TREASURES = words("""
lantern key crown map ring mirror flute clock kite drum bell book
""")
SCENES = words("""
forest valley castle park village desert cave garden harbour mountain
""")


def story(rng: random.Random):
  """A short story, then another ending for it."""
  hero, friend = rng.sample(HEROES, 2)
  trait, thing = rng.choice(TRAITS), rng.choice(TREASURES)
  scene = rng.choice(SCENES)
  slots = {
    "hero": hero,
    "friend": friend,
    "trait": trait,
    "thing": thing,
    "scene": scene,
    "a_trait": article(trait),
    "a_thing": article(thing),
    "a_friend": article(friend),
  }
  first = say(
    rng,
    "[Write|Tell me|Make up|I would like] a [very |]short story about "
    "{a_trait} {hero} who [finds|discovers|comes across] {a_thing} in a "
    "{scene}. [End|Finish|Close] with a title.",
    **slots,
  )
  story = say(
    rng,
    "[Once upon a time|Long ago|Many years ago|One day|In the old days], "
    "{a_trait} {hero} [lived|made a home|dwelt|<does>] [in|near|at the edge of]"
    " a <look> {scene}. "
    "[One <look> [morning|evening|night|day]|After a <look> storm|By chance], "
    "the {hero} <mood> [found|discovered|stumbled over|saw|picked up] "
    "{a_thing} [under a|in the|beside the|behind a] <look> [tree|stone|"
    "bridge|snow|mud|grass|road|river|path|house]. "
    "[It [shone|hummed|sparkled|whispered] [like a <look> [star|moon|fire]|"
    "<mood>|all night]|[Nobody|No one] knew [whose it was|where it came from]|"
    "It was <look> and <look>], "
    "[and|so] the {hero} [kept it|took it home|hid it|<does> <mood>]. "
    "[From then on|Since that day|In the end], [the {scene} was never "
    "<look> again|the {hero} was [no longer <look>|happy at last|"
    "known to all]|[all was <praise>|there was peace|every <who> <does>]].",
    **slots,
  )
  # In lower case, so that its words are those of the question.
  title = f"The {trait} {hero} and the "
  second = say(
    rng,
    "[Now|Nice. Now|Thank you. Now|Good! Now] [change the ending|"
    "write another ending|let it end differently]: the {hero} gives the "
    "{thing} to {a_friend}.[ Give it a new title.| With a new title.|]",
    **slots,
  )
  ending = say(
    rng,
    "[Some days later|The next day|But then|That <look> winter], the {hero} "
    "<mood> [met|came upon|heard of] {a_friend} [who had lost a <look> [hat|"
    "house|boat|shoe]|who was <look>|on a <look> road|in need of help]. "
    "[Without a word|With a <look> smile|After some thought], the {hero} "
    "<mood> gave [away the {thing}|the {thing} to the {friend}|the {friend} "
    "the {thing}]. [The {friend} <does> [for joy|all night|<mood>]|"
    "They became [friends|the best of friends]|They [shared|had] a <look> "
    "[meal|song|fire]], [and|and so] [the {trait} {hero} <does>|they [lived|"
    "stayed] together [for years|ever after]|nobody forgot it].",
    **slots,
  )
  titles = (title + thing, title + friend)
  facts = f"{trait} {hero}, {thing}, {scene}, {friend}"
  return (first, second), (story, ending), titles, "Title", facts
