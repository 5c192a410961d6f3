"""`adsum service`: collector and hub started by the machine itself, under systemd or launchd."""
