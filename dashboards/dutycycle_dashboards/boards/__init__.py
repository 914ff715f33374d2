"""The dashboards, a module (or a few) each, and what several of them list."""
