"""Shapes: cliques with a structure that lets them be evaluated without rounds."""
