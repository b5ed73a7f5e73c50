"""Durable changes of a served gallery: first a log, then the folder. Acknowledged changes survive `kill -9`."""
