"""Point ddetect at a training job: when the job stops moving it names the rank, the line and the reason."""

__version__ = "0.1.0"
