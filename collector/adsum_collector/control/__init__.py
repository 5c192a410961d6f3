"""Control: decisions from elsewhere on what sessions of this machine ask, where its owner agreed."""
