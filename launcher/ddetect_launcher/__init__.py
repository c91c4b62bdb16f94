"""Around the job: starts it, the agent and the coordinator, and gives back the job's exit code.

Standard library only, and it fails open: whatever goes wrong here, the job runs.
"""
