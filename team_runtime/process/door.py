"""The program that opens the one way out of a sandbox and then becomes the command:
`door.py FD PORT ARGV…`.

It listens on a port inside and hands the listening socket out through the descriptor; the proxy
outside answers on it. Nothing stays behind inside, and no further socket is needed, so that the
filter of system calls can forbid all others. It runs as a text in a bare interpreter and imports
nothing of this package, and of the library only what is ready at once: `socket` and `typing` would
take longer than the interpreter itself.
"""

from __future__ import annotations

import _socket
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

NOT_STARTED: Final = 126


def main(arguments: list[str]) -> int:
    """Become the command. Returns the exit status of not having done so."""
    number, port, *argv = arguments
    try:
        channel, listener = _socket.socket(fileno=int(number)), _socket.socket()
        listener.bind(("127.0.0.1", int(port)))
        listener.listen(128)
        descriptor = listener.fileno().to_bytes(4, sys.byteorder)
        channel.sendmsg([b"x"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, descriptor)])
        channel.close()
        os.execvpe(argv[0], argv, os.environ)
    except (OSError, ValueError) as error:
        print(f"the sandbox did not start {argv[0]}: {error}", file=sys.stderr)  # noqa: T201
        return NOT_STARTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
