"""The frame around every page."""

from html import escape

FRAME = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>{title} - Corner Shop</title></head>
<body>
<header><h1><a href="/">Corner Shop</a></h1><nav>{menu}</nav></header>
<main>{body}</main>
</body>
</html>
"""


def page(title, body, user=None):
    """A whole page. `body` is HTML, the other parts are text."""
    if user:
        menu = f'{escape(user)} <a href="/cart">Cart</a> <a href="/logout">Log out</a>'
    else:
        menu = '<a href="/login">Log in</a>'
    return FRAME.format(title=escape(title), menu=menu, body=body)
