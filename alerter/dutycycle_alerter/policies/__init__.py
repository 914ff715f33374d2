"""The site's policies, applied between evidence, rules and incidents: pure functions of settings and an instant."""

from dutycycle_alerter.policies.applying import Applied, PoliciesInForce
from dutycycle_alerter.policies.maintenance import Quiet
from dutycycle_alerter.policies.notices import Notice, NoticeKind, NoticeLog, notices

__all__ = ["Applied", "Notice", "NoticeKind", "NoticeLog", "PoliciesInForce", "Quiet", "notices"]
