"""Every parser of bytes from outside, given anything: `make test` tries a little, `make soak ARGS=tests/fuzz` much."""
