"""A dialogue about a short story, and another ending for it."""

import random

from bundled.tasks.speech import article, say, words

HEROES = words("""
fox owl bear rabbit mouse cat dog horse dragon robot pirate princess wizard
farmer sailor baker painter singer tailor giant
""")
TRAITS = words("""
brave shy clever lazy lonely proud tiny gentle hungry curious sleepy honest
clumsy cheerful grumpy patient
""")
TREASURES = words("""
lantern key crown map ring mirror flute clock kite boat feather drum bell cloak
shell book
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
    "{a_trait} {hero} [lived|made a home|dwelt] [in|near|at the edge of] a "
    "[quiet|green|dark|misty|small|strange|far] {scene}. "
    "[One [morning|evening|night|summer day]|After a storm|By chance], the "
    "{hero} [found|discovered|stumbled over|saw|picked up] {a_thing} "
    "[under a [tree|stone|bridge]|in the [snow|mud|grass]|beside the "
    "[road|river|path]]. "
    "[It [shone|hummed|sparkled|whispered] [like [a star|the moon|fire]|"
    "softly|all night]|[Nobody|No one] knew [whose it was|where it came from]|"
    "It was [old and dusty|warm to the touch|made of [silver|gold|glass]]], "
    "[and|so] the {hero} [kept it|took it home|hid it|showed it to everyone]. "
    "[From then on|Since that day|In the end], [the {scene} was never "
    "[dark|quiet|cold] again|the {hero} was [no longer alone|happy at last|"
    "known to all]|[all was well|there was peace|everyone smiled]].",
    **slots,
  )
  title = f"The {trait.capitalize()} {hero.capitalize()} and the "
  second = say(
    rng,
    "[Now|Nice. Now|Thank you. Now|Good! Now] [change the ending|"
    "write another ending|let it end differently]: the {hero} gives the "
    "{thing} to {a_friend}.[ Give it a new title.| With a new title.|]",
    **slots,
  )
  ending = say(
    rng,
    "[Some days later|The next day|But then|That winter], the {hero} [met|"
    "came upon|heard of] {a_friend} [who had lost everything|who was [cold|"
    "sad|lost|hungry]|on the road|in need of help]. "
    "[Without a word|With a smile|After some thought|Gladly], the {hero} "
    "gave [away the {thing}|the {thing} to the {friend}|the {friend} the "
    "{thing}]. [The {friend} [laughed|wept|danced|sang] [for joy|all night]|"
    "They became [friends|the best of friends]|They [shared|had] a [meal|"
    "song|fire]], [and|and so] [the {trait} {hero} was glad|they [lived|"
    "stayed] together [for years|ever after]|nobody forgot it].",
    **slots,
  )
  titles = (
    title + thing.capitalize(),
    title + friend.capitalize(),
  )
  facts = f"{trait} {hero}, {thing}, {scene}, {friend}"
  return (first, second), (story, ending), titles, "Title", facts
