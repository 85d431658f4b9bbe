"""`python -m tokenworks.cli`."""

from tokenworks.cli.main import main

if __name__ == "__main__":
    main()
