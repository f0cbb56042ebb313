"""The words of the simulated marketplace: verticals with their products, cities, and what brands are called."""

from dataclasses import dataclass


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split("|"))


@dataclass(frozen=True)
class Vertical:
    """One trade: what it is called, what it sells, how that is qualified, and how its pages speak.

    `nouns` name the trade in queries, the commonest first; `brands` are the hand-written ones; `local` is the share
    of its pages that serve one city; `related` names the verticals that page templates link to, though the page
    sells nothing of the kind; `family` is what verticals whose pages may be mixed have in common.
    """

    name: str
    nouns: tuple[str, ...]
    products: tuple[str, ...]
    attributes: tuple[str, ...]
    questions: tuple[str, ...]
    copy: tuple[str, ...]
    brands: tuple[str, ...]
    suffixes: tuple[str, ...]
    local: float = 0.3
    related: tuple[str, ...] = ()
    family: str = ""


def _restaurant(cuisine: str, products: str, attributes: str, copy: str, brands: str, suffixes: str) -> Vertical:
    return Vertical(
        name=f"{cuisine} restaurants",
        nouns=(
            f"{cuisine} restaurant",
            f"{cuisine} food",
            f"{cuisine} takeaway",
            f"{cuisine} food delivery",
            f"{cuisine} catering",
        ),
        products=_words(products),
        attributes=_words(attributes),
        questions=("what is in {product}", f"is {cuisine} food healthy", "how to eat {product}"),
        copy=_words(copy),
        brands=_words(brands),
        suffixes=_words(suffixes),
        local=0.85,
        related=("pizza", "flowers"),
        family="restaurants",
    )


VERTICALS = (
    Vertical(
        "car insurance",
        _words("car insurance | auto insurance | motor insurance | vehicle insurance | insurance quotes"),
        _words(
            "third party cover | comprehensive cover | learner driver insurance | motorcycle insurance | van insurance"
            " | classic car insurance | rental car insurance | breakdown cover | no claims protection"
            " | windscreen cover | young driver insurance | fleet insurance"
        ),
        _words("instant | monthly | annual | low deposit | online | full | temporary | senior"),
        _words(
            "how does {product} work | do i need {product} | what does car insurance cover | how to lower my premium"
        ),
        _words(
            "Get a quote in minutes and see how much you could save on your premium"
            " | Our claims team answers day and night, and every policy comes with a courtesy car"
            " | Drivers who switch keep their no claims discount"
            " | Choose your excess, add named drivers, and print your policy documents at once"
            " | Licensed agents compare deductibles and liability limits for you"
        ),
        _words("Gekkora | Safe Harbor Mutual | Bluewing"),
        _words("Insurance | Mutual | Assurance | Cover | Direct"),
        0.1,
        ("home insurance", "car rental", "mattresses"),
        "insurance",
    ),
    Vertical(
        "home insurance",
        _words("home insurance | house insurance | homeowners insurance | property insurance"),
        _words(
            "contents insurance | buildings insurance | renters insurance | landlord insurance | flood insurance"
            " | condo insurance | holiday home insurance | jewelry cover | accidental damage cover | bike cover"
        ),
        _words("instant | joint | monthly | annual | full | student | basic | extended"),
        _words("what does {product} cover | how much {product} do i need | is home insurance required"),
        _words(
            "Protect your roof, your walls and everything under them"
            " | Storm, fire, theft and burst pipes are covered as standard"
            " | We rebuild, we replace, and we do not quibble about the value of your belongings"
            " | Tell us your postcode and the year your house was built for a quote"
        ),
        _words("Hearthstone Mutual | Roofline"),
        _words("Home Insurance | Mutual | Assurance | Shield"),
        0.1,
        ("car insurance", "electricians", "movers"),
        "insurance",
    ),
    Vertical(
        "pizza",
        _words("pizza | pizza delivery | pizza place | pizza takeout | pizza restaurant"),
        _words(
            "pepperoni pizza | margherita pizza | deep dish pizza | stuffed crust pizza | vegan pizza | garlic bread"
            " | chicken wings | calzone | hawaiian pizza | gluten free pizza | family meal deal | pizza by the slice"
        ),
        _words("large | thin crust | late night | hot | fresh | wood fired | two for one | spicy"),
        _words("how many calories in {product} | how to reheat {product} | how to make pizza dough"),
        _words(
            "Hand stretched dough, tomato sauce from our own kitchen and real mozzarella"
            " | Order online and follow your driver to the door"
            " | Out of the oven and at your table in thirty minutes"
            " | Pick your toppings: olives, mushrooms, anchovies, jalapenos"
            " | Collect a stamp with every box and the tenth is free"
        ),
        _words("Dominica Pizza | Slice Brothers | Crustopher"),
        _words("Pizza | Pizzeria | Slices | Pizza Kitchen"),
        0.65,
        ("mexican restaurants", "flowers", "children's clothes"),
        "restaurants",
    ),
    Vertical(
        "flowers",
        _words("flowers | flower delivery | florist | bouquet | flower shop"),
        _words(
            "red roses | tulips | wedding flowers | funeral flowers | birthday bouquet | orchids | sunflowers | lilies"
            " | mothers day flowers | valentines flowers | flower subscription | sympathy wreath | anniversary flowers"
        ),
        _words("same day | fresh | dozen | hand tied | white | seasonal | luxury | letterbox"),
        _words("how long do {product} last | meaning of {product} | how to keep flowers fresh"),
        _words(
            "Cut this morning, arranged by hand, delivered before the evening"
            " | Every bouquet comes with a free card for your message"
            " | Order before noon for delivery today, Sundays too"
            " | Our florists choose stems at the market while the town is asleep"
            " | Say thank you, sorry or happy birthday with petals"
        ),
        _words("Petalgram | Rosewood Florists | Bloom & Barrow"),
        _words("Flowers | Florist | Blooms | Petals"),
        0.45,
        ("mattresses", "pet food", "custom t-shirts"),
    ),
    Vertical(
        "custom t-shirts",
        _words("custom t shirts | t shirt printing | personalized t shirts | custom shirts | design your own t shirt"),
        _words(
            "team shirts | photo t shirts | custom hoodies | embroidered polo shirts | printed caps | kids t shirts"
            " | long sleeve shirts | tank tops | bachelorette shirts | family reunion shirts | band merchandise"
            " | custom jerseys"
        ),
        _words("bulk | no minimum | organic cotton | rush | screen printed | black | funny | vintage"),
        _words("how to design {product} | how to wash {product} | what is screen printing"),
        _words(
            "Upload your artwork, pick a colour, and see your shirt at once"
            " | Screen print, embroidery or heat transfer on soft ringspun cotton"
            " | No setup fee and no minimum order"
            " | Our studio checks every design before it goes to print"
        ),
        _words("Teeforge | Inkwell Apparel | Shirtsmith"),
        _words("Tees | Printing | Apparel | Shirt Co"),
        0.15,
        ("business cards", "business cards", "children's clothes"),
        "printing",
    ),
    Vertical(
        "business cards",
        _words("business cards | business card printing | visiting cards | name cards"),
        _words(
            "matte business cards | foil business cards | rounded corner cards | letterhead | flyers | brochures"
            " | vinyl banners | stickers | postcards | photo mugs | presentation folders"
        ),
        _words("premium | double sided | rush | thick | recycled | glossy | square | bulk"),
        _words("what size are {product} | how to design {product} | what to put on a business card"),
        _words(
            "Thick stock, sharp type and proofs by e-mail within the hour"
            " | Choose a template or send us your print ready file"
            " | Five hundred cards printed today, posted tomorrow"
            " | Spot varnish, foil and letterpress on request"
        ),
        _words("Cardstock Lane | Printiverse"),
        _words("Print | Cards | Press | Paper Co"),
        0.15,
        ("custom t-shirts", "web hosting"),
        "printing",
    ),
    Vertical(
        "children's clothes",
        _words("kids clothes | childrens clothes | baby clothes | toddler clothes | kidswear"),
        _words(
            "girls dresses | boys jeans | baby bodysuits | school uniforms | kids pajamas | rain jackets"
            " | toddler shoes | winter coats | swimwear | party dresses | baby sleepsacks | kids leggings"
        ),
        _words("organic | warm | second hand | cute | waterproof | designer | sale | matching"),
        _words("what size {product} for a two year old | how to wash {product} | when do babies change size"),
        _words(
            "Soft seams, strong knees and buttons that small fingers can manage"
            " | From newborn to twelve years, in colours that survive the playground"
            " | Free returns, because they grow while the parcel is on its way"
            " | Cotton certified without harmful dyes"
        ),
        _words("Tinytoggle | Puddle & Pine | Mini Marlow"),
        _words("Kids | Kidswear | Little Ones | Junior"),
        0.15,
        ("running shoes", "custom t-shirts", "language courses"),
    ),
    Vertical(
        "electricians",
        _words("electrician | electricians | electrical services | electrical contractor"),
        _words(
            "fuse box replacement | rewiring | light fitting | ev charger installation | smoke alarm installation"
            " | electrical inspection | outlet repair | ceiling fan installation | security lighting | cooker wiring"
        ),
        _words("emergency | 24 hour | licensed | residential | commercial | certified | same day"),
        _words("how to do {product} | how much does {product} cost | why does my breaker trip"),
        _words(
            "Sparks at the socket or lights that flicker: our certified electricians come today"
            " | Fixed price before we start, and a safety certificate when we finish"
            " | Fully insured, background checked and on time"
            " | We test every circuit and label every breaker"
        ),
        _words("Wattson Electric | Ampere Brothers"),
        _words("Electric | Electrical | Wiring | Power"),
        0.85,
        ("plumbers", "home insurance", "movers"),
        "home services",
    ),
    Vertical(
        "plumbers",
        _words("plumber | plumbers | plumbing services | plumbing company"),
        _words(
            "drain cleaning | water heater repair | leak detection | toilet repair | bathroom installation"
            " | boiler service | burst pipe repair | sewer line repair | faucet replacement | garbage disposal repair"
        ),
        _words("emergency | 24 hour | licensed | local | same day | residential | commercial"),
        _words("how to do {product} | how much does {product} cost | why is my water pressure low"),
        _words(
            "Blocked drains, dripping taps and cold showers, put right on the first visit"
            " | A plumber at your door within the hour, day or night"
            " | No call out charge, and all work is guaranteed for a year"
            " | We carry the parts in the van"
        ),
        _words("Pipewright | Drainiac"),
        _words("Plumbing | Plumbers | Drains | Pipes"),
        0.85,
        ("electricians", "home insurance", "mattresses"),
        "home services",
    ),
    Vertical(
        "movers",
        _words("movers | moving company | removals | moving services | moving companies"),
        _words(
            "packing service | piano moving | office moving | self storage | moving truck rental | moving boxes"
            " | long distance moving | furniture assembly | student storage | house clearance"
        ),
        _words("local | insured | same day | weekend | full service | two men and a van | interstate"),
        _words("how much does {product} cost | how to pack for {product} | how much do you tip movers"),
        _words(
            "Strong backs, padded blankets and a truck of the right size"
            " | We wrap, load, drive and unpack, and the kettle is on before we leave"
            " | Free survey and a fixed quote in writing"
            " | Your sofa is insured from door to door"
        ),
        _words("Hauliday Movers | Boxcar Removals"),
        _words("Moving | Movers | Removals | Van Lines"),
        0.6,
        ("home insurance", "car rental", "mattresses"),
        "home services",
    ),
    _restaurant(
        "thai",
        "pad thai | green curry | tom yum soup | massaman curry | papaya salad | mango sticky rice | spring rolls"
        " | chicken satay | drunken noodles | thai iced tea",
        "spicy | vegetarian | authentic | lunch | halal | gluten free | street",
        "Lemongrass, galangal and kaffir lime leaves ground by hand every morning"
        " | Our chef cooked on the streets of Bangkok before she cooked here"
        " | Tell us how hot: one chilli or four | Coconut milk, fish sauce, palm sugar and jasmine rice",
        "Lotus Lantern | Chang Garden",
        "Thai | Thai Kitchen | Basil | Siam",
    ),
    _restaurant(
        "italian",
        "lasagna | spaghetti carbonara | risotto | tiramisu | gnocchi | ossobuco | minestrone | bruschetta"
        " | seafood linguine | eggplant parmigiana",
        "homemade | romantic | family style | vegetarian | authentic | lunch | wine bar",
        "Fresh pasta rolled each day and a cellar of Tuscan and Sicilian wine"
        " | A trattoria as grandmother knew it: olive oil, basil, patience"
        " | Book a table by the window, or take your supper home | Espresso, grappa and gelato after dinner",
        "Trattoria Zanella | Nonna Pina",
        "Trattoria | Osteria | Cucina | Ristorante",
    ),
    _restaurant(
        "mexican",
        "tacos al pastor | burritos | enchiladas | guacamole | quesadillas | fajitas | churros | carnitas | pozole"
        " | nachos | margaritas",
        "spicy | vegetarian | authentic | breakfast | street | all you can eat | halal",
        "Corn tortillas pressed to order and salsas from smoked chillies"
        " | Slow cooked pork, lime, coriander and pickled onion | Happy hour from four until seven, every weekday"
        " | Bring the family on Sunday for pozole",
        "El Nopalito | Casa Calavera",
        "Cantina | Taqueria | Cocina | Tacos",
    ),
    _restaurant(
        "indian",
        "butter chicken | chicken tikka masala | biryani | samosas | naan bread | palak paneer | vindaloo"
        " | masala dosa | tandoori chicken | dal makhani | mango lassi",
        "spicy | vegetarian | authentic | halal | lunch buffet | vegan | mild",
        "Charcoal tandoor, whole spices roasted and ground in our kitchen"
        " | From Punjabi classics to the dosas of the south | Lunch buffet every day with a dozen dishes"
        " | Turmeric, cardamom, cumin and a little fire",
        "Saffron Junction | Tandoor Mahal",
        "Tandoori | Spice | Curry House | Masala",
    ),
    _restaurant(
        "japanese",
        "sushi | ramen | tempura | teriyaki chicken | bento box | sashimi | udon noodles | gyoza | miso soup"
        " | hibachi steak | matcha dessert",
        "all you can eat | vegetarian | authentic | omakase | lunch | late night | conveyor belt",
        "Fish from the morning auction, rice seasoned the way of Tokyo"
        " | Broth simmered for eighteen hours, noodles cut in the house"
        " | Take a seat at the counter and let the chef choose | Sake, shochu and green tea",
        "Kumo Sushi | Ramen Republic",
        "Sushi | Ramen | Izakaya | Sushi Bar",
    ),
    Vertical(
        "dentists",
        _words("dentist | dental clinic | dental care | family dentist | dentists"),
        _words(
            "teeth whitening | dental implants | root canal | invisible braces | tooth extraction | dental crowns"
            " | teeth cleaning | veneers | dentures | wisdom tooth removal | childrens dentist"
        ),
        _words("emergency | painless | gentle | affordable | weekend | cosmetic | sedation"),
        _words("does {product} hurt | how much does {product} cost | how long does {product} take"),
        _words(
            "Gentle hands and a ceiling worth looking at while you lie back"
            " | New patients get an examination, x rays and a polish for one price"
            " | We see emergencies on the day and accept most plans"
            " | From the first tooth to the last crown, one team for the family"
        ),
        _words("Brightbite Dental | Molar Street"),
        _words("Dental | Dentistry | Smiles | Dental Care"),
        0.9,
        ("home insurance", "flowers"),
    ),
    Vertical(
        "running shoes",
        _words("running shoes | trainers | sneakers | sports shoes | athletic shoes"),
        _words(
            "trail running shoes | marathon shoes | walking shoes | tennis shoes | basketball shoes | gym shoes"
            " | barefoot shoes | track spikes | hiking boots | insoles | running socks"
        ),
        _words("mens | womens | wide | waterproof | lightweight | cushioned | black | stability"),
        _words("how to clean {product} | when to replace {product} | how should running shoes fit"),
        _words(
            "Find your stride with foam that gives back what you put in"
            " | Our fitters film your gait and find the pair for your arch"
            " | Free delivery and sixty days to try them on the road"
            " | Breathable mesh, grippy outsole, reflective heel"
        ),
        _words("Fleetfoot | Strideline | Pacer & Co"),
        _words("Running | Sports | Footwear | Athletics"),
        0.15,
        ("bicycles", "children's clothes", "mattresses"),
        "sports",
    ),
    Vertical(
        "bicycles",
        _words("bikes | bicycles | bike shop | cycle shop | bicycle store"),
        _words(
            "mountain bikes | road bikes | electric bikes | kids bikes | folding bikes | bike helmets | bike repair"
            " | bike lights | gravel bikes | cargo bikes | bike locks"
        ),
        _words("used | carbon | lightweight | womens | mens | full suspension | single speed | commuter"),
        _words("how to choose {product} | how to maintain {product} | what size bike do i need"),
        _words(
            "Frames from steel to carbon, built and tuned in our workshop"
            " | Every bike leaves with a free first service after six weeks"
            " | Shimmering new or carefully used, and we take your old one in part exchange"
            " | Gears, brakes, spokes and saddles: we fit while you wait"
        ),
        _words("Spokane Cycles | Chainlink"),
        _words("Cycles | Bikes | Wheels | Velo"),
        0.4,
        ("running shoes", "car insurance"),
        "sports",
    ),
    Vertical(
        "web hosting",
        _words("web hosting | website hosting | hosting | hosting provider | web host"),
        _words(
            "domain names | wordpress hosting | vps server | dedicated server | email hosting | ssl certificate"
            " | website builder | cloud storage | online store builder | reseller hosting"
        ),
        _words("free | managed | fast | unlimited | secure | small business | monthly | green"),
        _words("what is {product} | how to set up {product} | how much does a website cost"),
        _words(
            "Your site online in minutes, with backups every night"
            " | Solid state disks, free migration and people who answer the phone"
            " | One click installs for the software you know"
            " | Ninety nine point nine percent uptime, or your money back"
        ),
        _words("Serverly | Nimbusrack"),
        _words("Hosting | Host | Cloud | Servers"),
        0.03,
        ("business cards", "language courses"),
    ),
    Vertical(
        "mattresses",
        _words("mattress | mattresses | beds | mattress store | bed shop"),
        _words(
            "memory foam mattress | king size mattress | pillows | crib mattress | adjustable bed | mattress topper"
            " | bed frames | latex mattress | duvets | bunk beds | sofa beds"
        ),
        _words("firm | soft | organic | hypoallergenic | cooling | orthopedic | double | boxed"),
        _words("how to clean {product} | how long does {product} last | which mattress is best for back pain"),
        _words(
            "Sleep on it for a hundred nights, and send it back if your back complains"
            " | Springs, foam and wool in layers that keep you cool"
            " | We carry it upstairs and take the old one away"
            " | Made to order, compressed in a box, delivered this week"
        ),
        _words("Dozemore | Dozely"),
        _words("Sleep | Beds | Mattress Co | Slumber"),
        0.2,
        ("flowers", "pet food", "hotels"),
    ),
    Vertical(
        "pet food",
        _words("pet food | dog food | cat food | pet shop | pet supplies"),
        _words(
            "puppy food | grain free dog food | kitten food | dog treats | cat litter | fish food | bird seed"
            " | raw dog food | dog beds | flea treatment | hamster cages"
        ),
        _words("organic | dry | wet | hypoallergenic | senior | bulk | natural | subscription"),
        _words("how much {product} per day | is {product} good for my pet | why is my cat not eating"),
        _words(
            "Real meat first, no fillers, and tails that wag at the sound of the bag"
            " | Recipes made with vets for every breed and age"
            " | Set up a repeat order and never run out on a Sunday"
            " | Bowls, leads, baskets and toys for fur, feather and fin"
        ),
        _words("Wagsworth | Whisker & Paw"),
        _words("Pets | Pet Food | Paws | Pet Supply"),
        0.2,
        ("flowers", "children's clothes"),
    ),
    Vertical(
        "car rental",
        _words("car rental | car hire | rent a car | rental cars | hire car"),
        _words(
            "van rental | suv rental | luxury car rental | airport car rental | one way car rental | minibus hire"
            " | convertible rental | camper van hire | truck rental | long term car rental"
        ),
        _words("weekly | automatic | weekend | no deposit | unlimited mileage | electric | under 25 | last minute"),
        _words("do i need a credit card for {product} | what is the age for {product} | how does car rental work"),
        _words(
            "Keys in your hand five minutes after you land"
            " | Unlimited mileage, free second driver and no surprise at the desk"
            " | Compacts, estates and seven seaters, all less than a year old"
            " | Cancel free of charge up to a day before you collect"
        ),
        _words("Rovario | Keyturn"),
        _words("Rentals | Car Hire | Rent a Car | Drive"),
        0.4,
        ("car insurance", "hotels", "car insurance"),
        "travel",
    ),
    Vertical(
        "hotels",
        _words("hotels | hotel rooms | hotel booking | places to stay | accommodation"),
        _words(
            "spa hotel | airport hotel | boutique hotel | family rooms | honeymoon suite | beach resort"
            " | bed and breakfast | conference rooms | pet friendly hotel | serviced apartments | hostels"
        ),
        _words("last minute | luxury | downtown | five star | budget | all inclusive | romantic | quiet"),
        _words("what is included in {product} | how to find {product} | when is check in time"),
        _words(
            "Crisp sheets, blackout curtains and breakfast until eleven"
            " | Steps from the station and the old town, with parking below"
            " | Best rate promised when you book with us"
            " | Rooftop pool, sauna and a bar that knows your name"
        ),
        _words("Hotel Meridiana | Lanternhouse"),
        _words("Hotel | Inn | Suites | Lodge"),
        0.75,
        ("car rental", "italian restaurants", "thai restaurants"),
        "travel",
    ),
    Vertical(
        "language courses",
        _words("language courses | language school | language classes | learn languages | language lessons"),
        _words(
            "spanish course | french lessons | german classes | english course | chinese lessons | business english"
            " | sign language course | japanese course | exam preparation | summer language camp | italian lessons"
        ),
        _words("online | intensive | evening | private | beginner | advanced | free | one to one"),
        _words("how long does {product} take | how hard is {product} | what is the easiest language"),
        _words(
            "Speak from the first lesson, in groups of six at most"
            " | Native teachers, evening and weekend timetables"
            " | Placement test free of charge, certificate at the end"
            " | Grammar when you need it, conversation always"
        ),
        _words("Parlando | Tonguesmith"),
        _words("Languages | Language School | Academy | Lingua"),
        0.35,
        ("hotels", "web hosting"),
    ),
)

CITIES = _words(
    "New York | Los Angeles | Chicago | Houston | Phoenix | Philadelphia | San Antonio | San Diego | Dallas | Austin"
    " | San Jose | Jacksonville | Columbus | Charlotte | Indianapolis | San Francisco | Seattle | Denver | Boston"
    " | Nashville | Detroit | Portland | Las Vegas | Memphis | Baltimore | Milwaukee | Albuquerque | Tucson | Fresno"
    " | Sacramento | Atlanta | Omaha | Miami | Oakland | Minneapolis | Tampa | New Orleans | Cleveland | Honolulu"
    " | Pittsburgh"
)

SYLLABLES = tuple(
    tuple(line.split())
    for line in (
        "ba bel bri ca cor da dal el fa fen ga gri ha jo ka ken la lu ma mer mi na no or pa per qui ra ri sa ta tri va",
        "bo da den do fi ga go la le li lo ma mi na ni no ra ri ro sa ti to va vi",
        "ba cus da dex dy ful go ka la lan ly ma mo na nix no ra ro sko ta tis va vo xa",
    )
)

GENERIC_MODIFIERS = ("", "best", "top", "online", "local", "good", "the best", "top rated", "reviews")
BRAND_MODIFIERS = ("", "reviews", "coupons", "login", "phone number", "opening hours", "online", "discount code")
PRICE_MODIFIERS = ("cheap", "affordable", "cheapest", "discount", "low cost", "deals", "prices", "offers")

BOILERPLATE = _words(
    "We use cookies to make this site work. By using it you agree to our policy"
    " | Sign up for our newsletter and get news before anyone else"
    " | All prices include tax where it applies"
    " | Terms and conditions apply. See the site for details"
    " | Follow us and tell your friends"
    " | Your privacy matters to us"
    " | Family owned and proud of it"
    " | Rated excellent by thousands of customers"
    " | Secure payment by card or on account"
)
MENU = _words(
    "Home | About us | Contact | Blog | Help | My account | Basket | Careers | Press | Store finder | Gift cards"
)
