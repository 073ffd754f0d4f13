"""The program that opens the one way out of a sandbox and then becomes the command:
`door.py FD PORT ARGV…`.

It listens on a port inside and hands the listening socket out through the descriptor; the proxy
outside answers on it. Nothing stays behind inside, and no further socket is needed, so that the
filter of system calls can forbid all others. It runs as a text in a bare interpreter and imports
nothing of this package.
"""

from __future__ import annotations

import os
import socket
import sys
from typing import Final

NOT_STARTED: Final = 126


def main(arguments: list[str]) -> int:
    """Become the command. Returns the exit status of not having done so."""
    number, port, *argv = arguments
    try:
        with socket.socket(fileno=int(number)) as channel, socket.socket() as listener:
            listener.bind(("127.0.0.1", int(port)))
            listener.listen(128)
            socket.send_fds(channel, [b"x"], [listener.fileno()])
        os.execvpe(argv[0], argv, os.environ)
    except (OSError, ValueError) as error:
        print(f"the sandbox did not start {argv[0]}: {error}", file=sys.stderr)  # noqa: T201
        return NOT_STARTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
