"""``python -m leadline.cli``."""

from leadline.cli.main import main

main()
