"""The WSGI application: routes and responses."""

from http.cookies import SimpleCookie
from urllib.parse import parse_qsl

from shop import auth
from shop.cart import Cart
from shop.catalogue import find, listing
from shop.login import handle_login, handle_register, login_page, register_page
from shop.pages import page

CARTS = {}


def application(environ, start_response):
    """Answer one request."""
    path, method = environ["PATH_INFO"], environ["REQUEST_METHOD"]
    token = session_token(environ)
    user = auth.current_user(token)
    form = read_form(environ) if method == "POST" else {}

    if path == "/":
        words = dict(parse_qsl(environ.get("QUERY_STRING", ""))).get("q", "")
        return respond(start_response, page("Products", listing(find(words)), user))
    if path == "/login":
        return session_page(start_response, method, form, handle_login, login_page)
    if path == "/register":
        return session_page(start_response, method, form, handle_register, register_page)
    if path == "/logout":
        auth.logout(token)
        CARTS.pop(token, None)
        return redirect(start_response, "/")
    if path == "/cart":
        if user is None:
            return redirect(start_response, "/login")
        return cart_page(start_response, CARTS.setdefault(token, Cart()), form, user)
    return respond(start_response, page("Not found", "<p>No such page.</p>", user), "404 Not Found")


def session_page(start_response, method, form, handle, empty):
    """A form that opens a session when it is filled in well."""
    if method != "POST":
        return respond(start_response, empty())
    token, html = handle(form)
    if token is None:
        return respond(start_response, html, "400 Bad Request")
    cookie = f"session={token}; HttpOnly; SameSite=Lax; Path=/"
    return redirect(start_response, "/", [("Set-Cookie", cookie)])


def cart_page(start_response, cart, form, user):
    """The cart, after adding what was asked for."""
    try:
        if "sku" in form:
            cart.add(form["sku"])
    except KeyError:
        return respond(start_response, page("Cart", "<p>No such product.</p>", user), "400 Bad Request")
    return respond(start_response, page("Cart", cart.html(), user))


def session_token(environ):
    """The session token in the request's cookie, or an empty text."""
    cookie = SimpleCookie(environ.get("HTTP_COOKIE", "")).get("session")
    return cookie.value if cookie else ""


def read_form(environ):
    """The fields of a submitted form."""
    size = int(environ.get("CONTENT_LENGTH") or 0)
    return dict(parse_qsl(environ["wsgi.input"].read(size).decode(), keep_blank_values=True))


def respond(start_response, html, status="200 OK"):
    """Send a page."""
    body = html.encode()
    headers = [("Content-Type", "text/html; charset=utf-8"), ("Content-Length", str(len(body)))]
    start_response(status, headers)
    return [body]


def redirect(start_response, location, headers=()):
    """Send the browser elsewhere."""
    start_response("303 See Other", [("Location", location), *headers])
    return [b""]
