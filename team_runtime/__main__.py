"""`python -m team_runtime` is the same as `team`."""

from team_runtime.cli.main import main

if __name__ == "__main__":
    main()
