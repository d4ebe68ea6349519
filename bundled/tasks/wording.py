"""Lists of words, any of which may stand where a text says `<mood>`.

They are what makes answers free; none of them decides what is right.
"""

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
