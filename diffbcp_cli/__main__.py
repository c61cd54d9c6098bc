"""Run the command line with ``python -m diffbcp_cli``."""

from .cli.app import main

if __name__ == "__main__":
    main()
