"""The rules: pure functions from a job's evidence to verdicts, and from verdicts to causes and advice."""

from dutycycle_alerter.rules.judge import judge
from dutycycle_alerter.rules.verdict import Judgement, Outcome, Verdict

__all__ = ["Judgement", "Outcome", "Verdict", "judge"]
