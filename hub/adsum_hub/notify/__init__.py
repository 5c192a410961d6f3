"""Notifies people who are elsewhere: rules, Web Push, and the services apprise knows."""
