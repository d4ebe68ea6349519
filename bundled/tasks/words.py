"""Words that several tasks share."""

from bundled.tasks.speech import words

FIRST_NAMES = words("""
Ada Adam Alice Amir Anna Arthur Bella Ben Bruno Carl Carmen Clara Daniel Dora
Edith Elena Emil Emma Eric Eva Felix Flora Frank Fred Gina Grace Hana Harry
Helen Henry Ida Igor Irene Ivan Jack Jana Jane Joel Judith Julia Karl Kate
Laura Leo Lena Lily Linda Louis Lucy Marco Maria Mark Martha Max Mia Milan Nadia
Nick Nina Noah Nora Olga Oliver Omar Oscar Paul Peter Petra Rita Robert Rosa
Ruth Sam Sara Simon Sofia Stella Tara Theo Tim Tina Tom Vera Victor Viola
Walter Wanda Yara Zoe
""")

SURNAMES = words("""
Abbott Adler Archer Baker Banks Barlow Becker Bell Bennett Berg Black Bond Brown
Burke Carter Chan Clark Cole Cooper Costa Cruz Dale Dean Diaz Dunn Ellis Evans
Fischer Ford Foster Fox Garcia Gray Green Hall Hart Hill Holt Hunt Jones Keller
Kelly King Klein Knight Lane Lee Lopez Marsh Mason Meyer Miller Moore Moss Nash
Novak Olsen Page Park Perez Price Quinn Reed Reyes Rose Ross Russo Sato Shaw
Silva Singh Stone Swan Torres Turner Vance Wagner Walsh Ward Weber West White
Wolf Wood Young
""")

TOWNS = words("""
Alderton Ashford Barton Bayview Birchwood Brookfield Camden Cedarville Clifton
Cranbrook Dalesworth Eastport Elmwood Fairview Fernhill Foxdale Glenville
Greenfield Hampton Harborough Hazelton Highgate Hillside Ivybridge Kingsley
Lakewood Langley Linden Maplewood Marston Meadowbrook Millbrook Newbury Norwood
Oakton Oldbridge Pinewood Redcliff Ridgeway Riverton Rockport Rosedale
Sandford Seaford Springdale Stonebridge Sunnyside Thornton Underhill Valleyfield
Waterford Westbrook Whitehaven Willowby Winfield Woodstock
""")

DAYS = words("""
Monday Tuesday Wednesday Thursday Friday Saturday Sunday
""")

MONTHS = words("""
January February March April May June July August September October November
December
""")

# Things that are counted: singular, plural.
THINGS = [
  tuple(pair.split("/"))
  for pair in words("""
apple/apples pear/pears lemon/lemons melon/melons orange/oranges plum/plums
book/books pencil/pencils stamp/stamps coin/coins card/cards shell/shells
stone/stones button/buttons marble/marbles balloon/balloons sticker/stickers
egg/eggs cookie/cookies muffin/muffins candle/candles flower/flowers rose/roses
ticket/tickets photo/photos toy/toys ball/balls key/keys cup/cups plate/plates
spoon/spoons hat/hats sock/socks ribbon/ribbons bead/beads carrot/carrots
potato/potatoes onion/onions peach/peaches cherry/cherries nut/nuts
""")
]
