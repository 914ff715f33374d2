"""Where evidence comes from: scraped exporters, or a recording."""
