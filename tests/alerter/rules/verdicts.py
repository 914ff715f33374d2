"""The verdict of one rule on a job, and idle gaps as shares of its time."""

from dutycycle_alerter.model import JobEvidence
from dutycycle_alerter.rules import Outcome, Verdict, judge
from dutycycle_alerter.settings import Judging
from tests.alerter.cases import SETTINGS

FIRING, CLEAR, HOLDING = Outcome.FIRING, Outcome.CLEAR, Outcome.HOLDING
WAITING, UNKNOWN = Outcome.WAITING, Outcome.UNKNOWN
NOT_EVALUABLE, NOT_APPLICABLE = Outcome.NOT_EVALUABLE, Outcome.NOT_APPLICABLE

NO_GAPS = {"gap_lt2_share": 0.0, "gap_2to30_share": 0.0, "gap_30to600_share": 0.0, "gap_ge600_share": 0.0}


def gaps(share: float) -> dict[str, object]:
    return NO_GAPS | {"gap_lt2_share": share / 2, "gap_2to30_share": share / 2}


def verdict(rule: str, item: JobEvidence, settings: Judging = SETTINGS) -> Verdict:
    return judge(item, settings).verdict(rule)
