"""The program `nbagent`, also as `python -m nbagent`."""

import sys


def main() -> None:
    """Run the command line; whoever presses Ctrl-C while it is imported sees no traceback."""
    try:
        from nbagent.faces.cli.app import main as run
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        raise SystemExit(130) from None
    run()


if __name__ == "__main__":
    main()
