"""The cart of one session."""

from html import escape

from shop.catalogue import PRODUCTS, money


class Cart:
    """How many of which product."""

    def __init__(self):
        self.lines = {}

    def add(self, sku, count=1):
        """Put some of a product in. Raises KeyError for a product we do not sell."""
        product = PRODUCTS[sku]
        self.lines[product.sku] = self.lines.get(product.sku, 0) + count
        if self.lines[product.sku] <= 0:
            del self.lines[product.sku]

    def total(self):
        """The sum in cents."""
        return sum(PRODUCTS[sku].price * count for sku, count in self.lines.items())

    def html(self):
        """The cart as a table."""
        if not self.lines:
            return "<p>Your cart is empty.</p>"
        rows = [
            f"<tr><td>{count} ×</td><td>{escape(PRODUCTS[sku].name)}</td>"
            f"<td>{money(PRODUCTS[sku].price * count)}</td></tr>"
            for sku, count in self.lines.items()
        ]
        return f"<table>{''.join(rows)}</table><p>Total: {money(self.total())}</p>"
