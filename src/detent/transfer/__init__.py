"""Looking after the data as a whole: verify it, make its rows anew, move it to another store."""
