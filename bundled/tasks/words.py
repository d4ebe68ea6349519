"""Words that several tasks share."""

from bundled.tasks.speech import words

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
