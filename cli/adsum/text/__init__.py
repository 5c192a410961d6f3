"""What is printed for people: tables, ages, amounts, words for trouble; as wide as the terminal."""
