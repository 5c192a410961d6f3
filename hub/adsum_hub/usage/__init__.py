"""What sessions used and what it cost: by day, by budget, by whose prices."""
