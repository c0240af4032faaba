"""The clients' partitioners, one a file."""
