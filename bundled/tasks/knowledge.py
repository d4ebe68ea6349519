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
Austria/Vienna/Europe/German Belgium/Brussels/Europe/Dutch
Bulgaria/Sofia/Europe/Bulgarian Croatia/Zagreb/Europe/Croatian
Denmark/Copenhagen/Europe/Danish Estonia/Tallinn/Europe/Estonian
Finland/Helsinki/Europe/Finnish France/Paris/Europe/French
Germany/Berlin/Europe/German Greece/Athens/Europe/Greek
Hungary/Budapest/Europe/Hungarian Iceland/Reykjavik/Europe/Icelandic
Ireland/Dublin/Europe/English Italy/Rome/Europe/Italian
Latvia/Riga/Europe/Latvian Norway/Oslo/Europe/Norwegian
Poland/Warsaw/Europe/Polish Portugal/Lisbon/Europe/Portuguese
Romania/Bucharest/Europe/Romanian Serbia/Belgrade/Europe/Serbian
Spain/Madrid/Europe/Spanish Sweden/Stockholm/Europe/Swedish
Ukraine/Kyiv/Europe/Ukrainian
Cambodia/Phnom_Penh/Asia/Khmer China/Beijing/Asia/Chinese
India/New_Delhi/Asia/Hindi Iran/Tehran/Asia/Persian Iraq/Baghdad/Asia/Arabic
Japan/Tokyo/Asia/Japanese Jordan/Amman/Asia/Arabic
Mongolia/Ulaanbaatar/Asia/Mongolian Nepal/Kathmandu/Asia/Nepali
Oman/Muscat/Asia/Arabic Qatar/Doha/Asia/Arabic Thailand/Bangkok/Asia/Thai
Vietnam/Hanoi/Asia/Vietnamese Laos/Vientiane/Asia/Lao
Algeria/Algiers/Africa/Arabic Angola/Luanda/Africa/Portuguese
Egypt/Cairo/Africa/Arabic Ethiopia/Addis_Ababa/Africa/Amharic
Ghana/Accra/Africa/English Kenya/Nairobi/Africa/Swahili
Libya/Tripoli/Africa/Arabic Mali/Bamako/Africa/French
Morocco/Rabat/Africa/Arabic Senegal/Dakar/Africa/French
Tunisia/Tunis/Africa/Arabic Uganda/Kampala/Africa/English
Zambia/Lusaka/Africa/English
Argentina/Buenos_Aires/South_America/Spanish
Brazil/Brasilia/South_America/Portuguese Chile/Santiago/South_America/Spanish
Colombia/Bogota/South_America/Spanish Ecuador/Quito/South_America/Spanish
Peru/Lima/South_America/Spanish Uruguay/Montevideo/South_America/Spanish
Canada/Ottawa/North_America/English Cuba/Havana/North_America/Spanish
Mexico/Mexico_City/North_America/Spanish Jamaica/Kingston/North_America/English
Panama/Panama_City/North_America/Spanish
Australia/Canberra/Oceania/English Fiji/Suva/Oceania/English
"""

_ANIMALS = """
cow/mammal/meadow/grass horse/mammal/meadow/grass goat/mammal/mountains/grass
wolf/mammal/forest/meat fox/mammal/forest/mice bear/mammal/forest/berries
lion/mammal/savannah/meat zebra/mammal/savannah/grass
elephant/mammal/savannah/leaves giraffe/mammal/savannah/leaves
whale/mammal/sea/small_animals dolphin/mammal/sea/fish seal/mammal/sea/fish
otter/mammal/river/fish beaver/mammal/river/bark squirrel/mammal/forest/nuts
camel/mammal/desert/grass monkey/mammal/jungle/fruit tiger/mammal/jungle/meat
bat/mammal/cave/insects
eagle/bird/mountains/meat owl/bird/forest/mice sparrow/bird/garden/seeds
robin/bird/garden/worms swan/bird/lake/plants duck/bird/lake/plants
penguin/bird/sea/fish gull/bird/sea/fish parrot/bird/jungle/fruit
ostrich/bird/savannah/plants
heron/bird/river/fish woodpecker/bird/forest/insects
crocodile/reptile/river/meat lizard/reptile/desert/insects
cobra/reptile/jungle/mice tortoise/reptile/desert/plants
viper/reptile/mountains/mice iguana/reptile/jungle/leaves
salmon/fish/river/insects trout/fish/river/insects shark/fish/sea/meat
tuna/fish/sea/fish carp/fish/lake/plants pike/fish/lake/fish
bee/insect/meadow/nectar butterfly/insect/meadow/nectar ant/insect/forest/seeds
beetle/insect/forest/leaves cricket/insect/meadow/plants
dragonfly/insect/lake/insects frog/amphibian/lake/insects
newt/amphibian/lake/worms toad/amphibian/garden/insects
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
