"""One process per job: gathers beats, decides when to look closer, keeps the incidents."""
