"""OpenAI's Codex CLI: its rollouts and hooks, read into signals."""
