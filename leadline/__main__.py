"""``python -m leadline``."""

from leadline.cli.main import main

main()
