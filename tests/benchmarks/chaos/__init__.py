"""The chaos harness's own logic: links, clocks, schedules and the checker."""
