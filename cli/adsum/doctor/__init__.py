"""`adsum doctor`: one module for each thing that it looks at."""
