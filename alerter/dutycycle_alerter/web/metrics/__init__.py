"""The alerter's own metrics at `/metrics`, each subject in a module of its own, all as `web.families` has them."""

from dutycycle_alerter.web.metrics.route import router

__all__ = ["router"]
