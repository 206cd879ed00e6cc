"""From measurements to pages: `bench/figures.json`, and the tables that are written from it."""
