"""The login and registration pages."""

from shop import auth
from shop.pages import page


def login_page(form=None, error=""):
    """The login form, filled in again after a mistake."""
    form = form or {}
    html = "<h2>Log in</h2>"
    if error:
        html = html + '<p class="error">' + error + "</p>"
    html = html + '<form method="post" action="/login">'
    html = html + '<label>Address <input name="email" value="' + form.get("email", "") + '"></label>'
    html = html + '<label>Password <input name="password" type="password"></label>'
    html = html + "<button>Log in</button>"
    html = html + "</form>"
    html = html + '<p>New here? <a href="/register">Open an account</a>.</p>'
    return page("Log in", html)


def register_page(form=None, error=""):
    """The registration form, filled in again after a mistake."""
    form = form or {}
    html = "<h2>Open an account</h2>"
    if error:
        html = html + '<p class="error">' + error + "</p>"
    html = html + '<form method="post" action="/register">'
    html = html + '<label>Name <input name="name" value="' + form.get("name", "") + '"></label>'
    html = html + '<label>Address <input name="email" value="' + form.get("email", "") + '"></label>'
    html = html + '<label>Password <input name="password" type="password"></label>'
    html = html + "<button>Open account</button>"
    html = html + "</form>"
    return page("Open an account", html)


def handle_login(form):
    """Answer a submitted login form. Returns (token, html); one of them is None."""
    email = form.get("email", "")
    password = form.get("password", "")
    if email.strip() == "":
        return None, login_page(form, "Please give your address.")
    if "@" not in email or email.strip().startswith("@") or email.strip().endswith("@"):
        return None, login_page(form, email + " is not an address.")
    if password == "":
        return None, login_page(form, "Please give your password.")
    token, error = auth.login(email, password)
    if error:
        return None, login_page(form, error)
    return token, None


def handle_register(form):
    """Answer a submitted registration form. Returns (token, html); one of them is None."""
    name = form.get("name", "")
    email = form.get("email", "")
    password = form.get("password", "")
    if name.strip() == "":
        return None, register_page(form, "Please give your name.")
    if email.strip() == "":
        return None, register_page(form, "Please give your address.")
    if "@" not in email or email.strip().startswith("@") or email.strip().endswith("@"):
        return None, register_page(form, email + " is not an address.")
    if password == "":
        return None, register_page(form, "Please give your password.")
    if len(password) < 8:
        return None, register_page(form, "The password needs at least 8 characters.")
    error = auth.register(email, password, name.strip())
    if error:
        return None, register_page(form, error)
    token, error = auth.login(email, password)
    return token, None
