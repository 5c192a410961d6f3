"""Adds up what sessions used and what it cost: by day, by budget, by price."""
