"""Serve the shop on the loopback interface."""

from wsgiref.simple_server import make_server

from shop.app import application

with make_server("127.0.0.1", 8000, application) as server:
    print("Corner Shop on http://127.0.0.1:8000")
    server.serve_forever()
