"""docs/reference/models.md says what the cards of the bundled models say."""

import subprocess
import sys
from pathlib import Path


def test_the_page_is_what_the_cards_say():
    tool = Path(__file__).parents[2] / "tools" / "model_cards.py"
    subprocess.run([sys.executable, str(tool), "--check"], check=True)
