"""Model and messages as bytes: protobuf, gRPC channels, .ddsnap files."""
