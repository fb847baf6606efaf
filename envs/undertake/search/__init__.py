"""Players that search: `undertake.search.rollout`, by name "rollout:BUDGET:policy"."""
