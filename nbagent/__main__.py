"""`python -m nbagent` is the command `nbagent`."""

from nbagent.faces.cli.app import main

if __name__ == "__main__":
    main()
