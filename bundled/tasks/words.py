"""Lists of words that the tasks choose from."""


def words(text: str) -> list[str]:
  """Returns the words of a text."""
  return text.split()


FIRST_NAMES = words("""
Ada Adam Alice Anna Arthur Bella Ben Bruno Carl Clara Daniel Dora Elena Emil
Emma Eric Felix Flora Frank Grace Hana Harry Helen Igor Irene Ivan Jack Jane
Julia Karl Kate Laura Leo Lily Lucy Marco Maria Max Nina Noah Olga Oscar Paul
Peter Rosa Sam Sara Simon Tina Tom Vera Victor
""")

SURNAMES = words("""
Abbott Archer Baker Banks Bell Berg Brown Carter Clark Cooper Dean Ellis Evans
Fischer Ford Garcia Gray Hall Hill Hunt Jones Kelly King Lane Lopez Mason Meyer
Moore Nash Novak Page Perez Quinn Reed Rose Sato Silva Stone Turner Ward Wolf
""")

TOWNS = words("""
Ashford Barton Bayview Birchwood Camden Clifton Eastport Elmwood Fairview
Glenville Hampton Highgate Hillside Kingsley Lakewood Linden Maplewood Newbury
Norwood Oakton Pinewood Redcliff Riverton Rosedale Seaford Springdale Thornton
Waterford Whitehaven Woodstock
""")

DAYS = words("""
Monday Tuesday Wednesday Thursday Friday Saturday Sunday
""")

MONTHS = words("""
January February March April May June July August September October November
December
""")

# 0 to 20: what sums and lists need.
NUMBERS = words("""
zero one two three four five six seven eight nine ten eleven twelve thirteen
fourteen fifteen sixteen seventeen eighteen nineteen twenty
""")

# Things that are counted, many of them.
THINGS = words("""
apples pears lemons oranges plums books pencils stamps coins cards shells
buttons marbles balloons eggs cookies candles flowers tickets toys keys cups
plates hats socks ribbons carrots nuts
""")

# Any word of a list may stand where a text says `<look>`. They make answers
# vary; none of them decides what is right.
_TEXTS = {
  # How a place or a thing may be.
  "look": """
quiet green dark misty small strange far sunny windy golden silver lonely
cold warm wide narrow hidden busy pretty dusty rainy sleepy grey bright deep
steep wild lovely plain famous round heavy light smooth painted broken shiny
""",
  # How something may be done.
  "mood": """
gladly slowly quietly happily proudly gently sadly quickly bravely kindly calmly
softly carefully secretly eagerly politely warmly shyly boldly loudly patiently
cheerfully suddenly lazily neatly wisely
""",
  # How a question, an answer or a day may be found.
  "praise": """
good fine nice clear simple short fair neat curious useful clever tricky
funny pleasant welcome serious strange charming lovely
""",
  "who": """
father mother sister brother cousin teacher neighbour friend
grandfather grandmother captain nurse partner pupil guest boss
""",
  "time": """
yesterday today once often before again daily twice recently sometimes
""",
  "does": """
smiled laughed waited nodded listened watched sang danced slept wept cheered
stayed whistled whispered rested clapped wondered returned
""",
}

LISTS = {name: tuple(text.split()) for name, text in _TEXTS.items()}
