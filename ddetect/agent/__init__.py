"""One per node: finds ranks, reads pages, beats, takes samples on command."""
