import unittest

from shop import auth


class AuthTest(unittest.TestCase):
    def setUp(self):
        auth.USERS.clear()
        auth.SESSIONS.clear()
        auth.register("ada@example.org", "correct horse", "Ada")

    def test_login_opens_a_session(self):
        token, error = auth.login("ada@example.org", "correct horse")
        self.assertIsNone(error)
        self.assertEqual(auth.current_user(token), "Ada")

    def test_addresses_are_compared_without_case(self):
        token, _ = auth.login(" Ada@Example.org ", "correct horse")
        self.assertIsNotNone(token)

    def test_wrong_password(self):
        token, error = auth.login("ada@example.org", "wrong")
        self.assertIsNone(token)
        self.assertEqual(error, "Wrong address or password.")

    def test_unknown_address_says_the_same(self):
        _, error = auth.login("bob@example.org", "wrong")
        self.assertEqual(error, "Wrong address or password.")

    def test_second_account_for_an_address(self):
        self.assertIsNotNone(auth.register("ADA@example.org", "other password", "Eve"))

    def test_five_failures_lock_the_account(self):
        for _ in range(5):
            auth.login("ada@example.org", "wrong")
        _, error = auth.login("ada@example.org", "correct horse")
        self.assertEqual(error, "Too many attempts. Try again later.")

    def test_change_password(self):
        self.assertIsNone(auth.change_password("ada@example.org", "correct horse", "battery staple"))
        self.assertIsNotNone(auth.login("ada@example.org", "battery staple")[0])
        self.assertIsNone(auth.login("ada@example.org", "correct horse")[0])

    def test_change_password_needs_the_old_one(self):
        self.assertIsNotNone(auth.change_password("ada@example.org", "wrong", "battery staple"))

    def test_logout(self):
        token, _ = auth.login("ada@example.org", "correct horse")
        auth.logout(token)
        self.assertIsNone(auth.current_user(token))

    def test_unknown_token(self):
        self.assertIsNone(auth.current_user("nonsense"))


if __name__ == "__main__":
    unittest.main()
