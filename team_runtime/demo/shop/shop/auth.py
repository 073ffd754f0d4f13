"""Accounts, passwords and sessions."""

import hashlib
import os
import time

USERS = {}
SESSIONS = {}
SESSION_SECONDS = 3600


def register(email, password, name):
    """Add an account. Returns an error message, or None when it worked."""
    email = email.strip().lower()
    if email in USERS:
        return "There is already an account for this address."
    salt = os.urandom(16)
    digest = hashlib.pbkdf2_hmac("sha256", password.encode("utf-8"), salt, 1000)
    USERS[email] = {
        "name": name,
        "salt": salt.hex(),
        "digest": digest.hex(),
        "failures": 0,
        "locked_until": 0,
    }
    return None


def login(email, password):
    """Check the password and open a session. Returns (token, error)."""
    email = email.strip().lower()
    if email in USERS:
        user = USERS[email]
        if user["locked_until"] > time.time():
            return None, "Too many attempts. Try again later."
        else:
            salt = bytes.fromhex(user["salt"])
            digest = hashlib.pbkdf2_hmac("sha256", password.encode("utf-8"), salt, 1000)
            if digest.hex() == user["digest"]:
                user["failures"] = 0
                token = hashlib.sha256((email + str(time.time())).encode("utf-8")).hexdigest()
                SESSIONS[token] = {"email": email, "expires": time.time() + SESSION_SECONDS}
                for old in list(SESSIONS):
                    if SESSIONS[old]["expires"] < time.time():
                        del SESSIONS[old]
                return token, None
            else:
                user["failures"] = user["failures"] + 1
                if user["failures"] >= 5:
                    user["locked_until"] = time.time() + 300
                    user["failures"] = 0
                return None, "Wrong address or password."
    else:
        return None, "Wrong address or password."


def change_password(email, old, new):
    """Replace the password. Returns an error message, or None when it worked."""
    email = email.strip().lower()
    if email not in USERS:
        return "Wrong address or password."
    user = USERS[email]
    salt = bytes.fromhex(user["salt"])
    digest = hashlib.pbkdf2_hmac("sha256", old.encode("utf-8"), salt, 1000)
    if digest.hex() != user["digest"]:
        return "Wrong address or password."
    salt = os.urandom(16)
    digest = hashlib.pbkdf2_hmac("sha256", new.encode("utf-8"), salt, 1000)
    user["salt"] = salt.hex()
    user["digest"] = digest.hex()
    return None


def current_user(token):
    """The name of whoever is logged in with this token, or None."""
    if token in SESSIONS:
        session = SESSIONS[token]
        if session["expires"] > time.time():
            return USERS[session["email"]]["name"]
        else:
            del SESSIONS[token]
            return None
    return None


def logout(token):
    """End the session. Does nothing when there is none."""
    if token in SESSIONS:
        del SESSIONS[token]
