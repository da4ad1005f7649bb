"""What the checks of one height found; kept until the height ends.

Source: docs/decision-protocol.md, sections 2 and 5.
"""

from p2pd.core.ids import DecisionId
from p2pd.core.voting.events import Checked
from p2pd.core.voting.timers import CheckTimes


class Results:
    def __init__(self, times: CheckTimes, undecided: bytes) -> None:
        self._times = times
        self._undecided = undecided
        self._started_s: dict[bytes, float] = {}
        self._judged: dict[bytes, Checked] = {}
        self._values: dict[bytes, DecisionId] = {}
        self._choices: dict[DecisionId, bytes] = {}
        self._objective: dict[DecisionId, bool] = {}

    def start(self, choices: bytes, now_s: float) -> bool:
        """False if that check was asked for already."""
        if choices in self._started_s:
            return False
        self._started_s[choices] = now_s
        return True

    def retry(self, choices: bytes) -> None:
        """Lets choices be checked again from which no decision could be derived."""
        checked = self._judged.get(choices)
        if checked is not None and checked.value is None:
            del self._judged[choices]
            self._started_s.pop(choices, None)

    def finish(self, checked: Checked, now_s: float) -> None:
        known = self._judged.get(checked.choices)
        self._judged[checked.choices] = checked
        if checked.value is None:
            return
        started_s = self._started_s.get(checked.choices)
        first = known is None or known.value is None
        if first and started_s is not None and checked.choices != self._undecided:
            self._times.add(now_s - started_s)
        self.learn(checked.value, checked.choices, objective=checked.objective)

    def learn(self, value: DecisionId, choices: bytes, *, objective: bool) -> None:
        self._values[choices] = value
        self._choices[value] = choices
        self._objective[value] = objective

    def judged(self, choices: bytes) -> Checked | None:
        return self._judged.get(choices)

    def value(self, choices: bytes) -> DecisionId | None:
        return self._values.get(choices)

    def choices(self, value: DecisionId) -> bytes:
        return self._choices[value]

    def objective(self, value: DecisionId) -> bool | None:
        """None while it is not known."""
        return self._objective.get(value)
