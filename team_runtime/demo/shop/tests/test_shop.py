import io
import unittest
from urllib.parse import urlencode

from shop import auth
from shop.app import CARTS, application
from shop.cart import Cart
from shop.catalogue import find, money


def request(path, form=None, cookie=""):
    body = urlencode(form or {}).encode()
    answer = {}

    def start_response(status, headers):
        answer.update(status=status, headers=dict(headers))

    path, _, query = path.partition("?")
    chunks = application(
        {
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": "GET" if form is None else "POST",
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_COOKIE": cookie,
            "wsgi.input": io.BytesIO(body),
        },
        start_response,
    )
    return answer["status"], answer["headers"], b"".join(chunks).decode()


class ShopTest(unittest.TestCase):
    def setUp(self):
        auth.USERS.clear()
        auth.SESSIONS.clear()
        CARTS.clear()

    def test_front_page_lists_the_products(self):
        status, _, html = request("/")
        self.assertEqual(status, "200 OK")
        self.assertIn("Plum &amp; ginger jam", html)

    def test_search(self):
        self.assertEqual([p.sku for p in find("TEA green")], ["tea"])
        self.assertIn("Nothing found", request("/?q=sofa")[2])

    def test_money(self):
        self.assertEqual(money(1490), "14.90 €")
        self.assertEqual(money(5), "0.05 €")

    def test_cart_adds_up(self):
        cart = Cart()
        cart.add("tea", 2)
        cart.add("jam")
        self.assertEqual(cart.total(), 1830)
        with self.assertRaises(KeyError):
            cart.add("sofa")

    def test_cart_needs_a_login(self):
        self.assertEqual(request("/cart")[1]["Location"], "/login")

    def test_a_customer_registers_and_buys(self):
        form = {"name": "Ada", "email": "ada@example.org", "password": "correct horse"}
        _, headers, _ = request("/register", form)
        cookie = headers["Set-Cookie"].split(";")[0]
        self.assertIn("Ada", request("/", cookie=cookie)[2])
        self.assertIn("Total: 14.90 €", request("/cart", {"sku": "mug"}, cookie)[2])
        request("/logout", cookie=cookie)
        self.assertNotIn("Ada", request("/", cookie=cookie)[2])

    def test_no_such_page(self):
        self.assertEqual(request("/nowhere")[0], "404 Not Found")


if __name__ == "__main__":
    unittest.main()
