"""What question answering knows: countries and animals."""

import dataclasses


@dataclasses.dataclass(frozen=True, kw_only=True)
class Country:
  """A country, and what is asked about it."""

  name: str
  capital: str
  continent: str
  language: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Animal:
  """An animal, and what is asked about it."""

  name: str
  kind: str
  home: str
  food: str


# A language that most people there speak, or that is official.
_COUNTRIES = """
Austria/Vienna/Europe/German Denmark/Copenhagen/Europe/Danish
Finland/Helsinki/Europe/Finnish France/Paris/Europe/French
Germany/Berlin/Europe/German Greece/Athens/Europe/Greek
Hungary/Budapest/Europe/Hungarian Ireland/Dublin/Europe/English
Italy/Rome/Europe/Italian Norway/Oslo/Europe/Norwegian
Poland/Warsaw/Europe/Polish Portugal/Lisbon/Europe/Portuguese
Spain/Madrid/Europe/Spanish Sweden/Stockholm/Europe/Swedish
China/Beijing/Asia/Chinese Iraq/Baghdad/Asia/Arabic Japan/Tokyo/Asia/Japanese
Nepal/Kathmandu/Asia/Nepali Thailand/Bangkok/Asia/Thai
Vietnam/Hanoi/Asia/Vietnamese
Egypt/Cairo/Africa/Arabic Ghana/Accra/Africa/English
Kenya/Nairobi/Africa/Swahili Morocco/Rabat/Africa/Arabic
Senegal/Dakar/Africa/French
Brazil/Brasilia/South_America/Portuguese Chile/Santiago/South_America/Spanish
Peru/Lima/South_America/Spanish Canada/Ottawa/North_America/English
Cuba/Havana/North_America/Spanish
"""

_ANIMALS = """
cow/mammal/meadow/grass horse/mammal/meadow/grass
wolf/mammal/forest/meat fox/mammal/forest/mice bear/mammal/forest/berries
lion/mammal/savannah/meat zebra/mammal/savannah/grass
whale/mammal/sea/plankton dolphin/mammal/sea/fish
beaver/mammal/river/bark squirrel/mammal/forest/nuts
camel/mammal/desert/grass tiger/mammal/jungle/meat
eagle/bird/mountains/meat owl/bird/forest/mice sparrow/bird/garden/seeds
swan/bird/lake/plants penguin/bird/sea/fish parrot/bird/jungle/fruit
crocodile/reptile/river/meat lizard/reptile/desert/insects
cobra/reptile/jungle/mice
salmon/fish/river/insects shark/fish/sea/meat carp/fish/lake/plants
bee/insect/meadow/nectar ant/insect/forest/seeds
beetle/insect/forest/leaves frog/amphibian/lake/insects
toad/amphibian/garden/insects
"""


def _rows(text, row):
  for entry in text.split():
    yield row(*(value.replace("_", " ") for value in entry.split("/")))


COUNTRIES = list(
  _rows(
    _COUNTRIES,
    lambda a, b, c, d: Country(name=a, capital=b, continent=c, language=d),
  )
)
ANIMALS = list(
  _rows(_ANIMALS, lambda a, b, c, d: Animal(name=a, kind=b, home=c, food=d))
)
