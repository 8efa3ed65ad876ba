"""``leadline`` and ``python -m leadline.cli``."""

import signal

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C while modules are loaded: no traceback of theirs


def main() -> None:
    """The console script."""
    from leadline.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
