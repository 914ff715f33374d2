"""Slack on a real socket: the Web API and incoming webhooks, as far as messages of bots go."""
