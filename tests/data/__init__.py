"""Tests of the readers; a package, so that they share a web server (`serving`)."""
