"""Training agents for undertake's games: masked PPO in self-play, straight on the batch engine."""
