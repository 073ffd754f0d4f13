"""`python -m team_runtime` is the same as `team`."""

import os
import sys

if __name__ == "__main__":
    # `python -m` puts the current folder first on the path: modules of the repository that a team
    # works on must never stand in for ours.
    if sys.path and sys.path[0] == os.getcwd():  # noqa: PTH109 - pathlib would be one more import
        del sys.path[0]
    from team_runtime.cli.main import main

    main()
