"""The products."""

from dataclasses import dataclass
from html import escape


@dataclass(frozen=True)
class Product:
    """Something for sale. The price is in cents."""

    sku: str
    name: str
    price: int


PRODUCTS = {
    product.sku: product
    for product in (
        Product("tea", "Green tea, 100 g", 690),
        Product("jam", "Plum & ginger jam", 450),
        Product("soap", "Olive soap", 320),
        Product("mug", "Stoneware mug", 1490),
    )
}


def find(words):
    """The products whose names contain all the words, by name."""
    wanted = words.lower().split()
    found = [p for p in PRODUCTS.values() if all(word in p.name.lower() for word in wanted)]
    return sorted(found, key=lambda product: product.name)


def money(cents):
    """A price as it is shown: 1490 is 14.90 €."""
    return f"{cents // 100}.{cents % 100:02d} €"


def listing(products):
    """The products as an HTML list with buttons to buy them."""
    items = [
        f"<li>{escape(p.name)}, {money(p.price)} "
        f'<form method="post" action="/cart"><button name="sku" value="{escape(p.sku)}">'
        "Add</button></form></li>"
        for p in products
    ]
    return f"<ul>{''.join(items)}</ul>" if items else "<p>Nothing found.</p>"
