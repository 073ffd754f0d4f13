import unittest

from shop import auth, login


class LoginTest(unittest.TestCase):
    def setUp(self):
        auth.USERS.clear()
        auth.SESSIONS.clear()
        auth.register("ada@example.org", "correct horse", "Ada")

    def test_the_form_has_its_fields(self):
        html = login.login_page()
        self.assertIn('name="email"', html)
        self.assertIn('name="password"', html)
        self.assertIn('action="/login"', html)

    def test_login(self):
        token, html = login.handle_login({"email": "ada@example.org", "password": "correct horse"})
        self.assertIsNone(html)
        self.assertEqual(auth.current_user(token), "Ada")

    def test_missing_address(self):
        _, html = login.handle_login({"password": "x"})
        self.assertIn("Please give your address.", html)

    def test_not_an_address(self):
        _, html = login.handle_login({"email": "ada", "password": "x"})
        self.assertIn("ada is not an address.", html)

    def test_missing_password(self):
        _, html = login.handle_login({"email": "ada@example.org"})
        self.assertIn("Please give your password.", html)

    def test_the_address_is_filled_in_again(self):
        _, html = login.handle_login({"email": "ada@example.org", "password": "wrong"})
        self.assertIn('value="ada@example.org"', html)
        self.assertIn("Wrong address or password.", html)

    def test_register(self):
        form = {"name": "Bob", "email": "bob@example.org", "password": "long enough"}
        token, _ = login.handle_register(form)
        self.assertEqual(auth.current_user(token), "Bob")

    def test_short_password(self):
        form = {"name": "Bob", "email": "bob@example.org", "password": "short"}
        _, html = login.handle_register(form)
        self.assertIn("at least 8 characters", html)


if __name__ == "__main__":
    unittest.main()
