"""The votes held of one height, and what they amount to.

Source: docs/decision-protocol.md, section 3.
Counts are kept up as votes come, so that asking costs nothing.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from p2pd.core.ids import DecisionId, PublicKey
from p2pd.core.signed import Signed
from p2pd.core.votes import NO_ROUND, Certificate, Step, Vote
from p2pd.core.voting.members import Members

AHEAD = 8
"""Of rounds further ahead than this, little is kept of each key."""
FAR_ROUNDS = 2
FAR_VOTES = 2
"""Per key, round and step, so far ahead; once near, the rest can come again."""
FREE_VALUES = 2
"""A key's further values in a round and step are kept only once others of weight a voted so."""

Value = DecisionId | None


@dataclass(slots=True)
class _Count:
    """Votes of one round and step for one value."""

    keys: set[PublicKey] = field(default_factory=set)
    weight: int = 0
    counted: set[PublicKey] = field(default_factory=set)
    """Those with a vote that counts."""
    counted_weight: int = 0


@dataclass(slots=True)
class _Round:
    heard: set[PublicKey] = field(default_factory=set)
    """Keys with a vote or a proposal in this round."""
    heard_weight: int = 0
    any: dict[Step, int] = field(default_factory=dict)
    votes: dict[tuple[PublicKey, Step], dict[tuple[Value, int], Signed[Vote]]] = field(
        default_factory=dict
    )
    counts: dict[tuple[Step, Value], _Count] = field(default_factory=dict)
    quorums: list[DecisionId] = field(default_factory=list)
    """Decisions with a quorum of counting prevotes, first seen first."""


class Tally:
    def __init__(self, members: Members, height: int, *, counting: bool = True) -> None:
        self.current = 0
        """The round that decides what is far ahead; its owner moves it."""
        self.certified: tuple[DecisionId, int] | None = None
        """The first decision with a quorum of counting precommits, and their round."""
        self._members = members
        self._first_proposer = members.proposer(height, 0).key
        self._counting = counting
        self._rounds: dict[int, _Round] = {}
        self._waiting: dict[tuple[int, DecisionId], list[Signed[Vote]]] = {}
        """Prevotes whose just names a quorum that is not held."""
        self._proposers: dict[int, PublicKey] = {}
        self._followers: set[PublicKey] = set()
        """Members other than the first proposer that were heard at all."""
        self._followers_weight = 0
        self._loud: set[int] = set()
        """Rounds heard from weight a."""

    # What comes in

    def add(self, signed: Signed[Vote]) -> bool:
        """Keeps a vote of this height if it is a member's and the limits allow. True if new."""
        vote = signed.content
        if signed.author not in self._members.weights:
            return False
        ledger = self._rounds.get(vote.round)
        slot = ledger.votes.get((signed.author, vote.step)) if ledger else None
        if slot and ((vote.value, vote.just) in slot or not self._admits(signed, slot)):
            return False
        if vote.round > self.current + AHEAD and not self._make_room(signed, slot):
            return False
        self._store(signed)
        return True

    def add_all(self, votes: Iterable[Signed[Vote]]) -> None:
        """Keeps votes that belong together: refused ones are tried again after the others."""
        refused = [signed for signed in votes if not self.add(signed)]
        for signed in refused:
            self.add(signed)

    def hear_proposal(self, author: PublicKey, round_: int) -> None:
        self._proposers[round_] = author
        self._hear(author, round_, self._rounds.setdefault(round_, _Round()))

    def forget_proposal(self, round_: int) -> None:
        """Its author counts as heard there only by votes."""
        del self._proposers[round_]
        self._rebuild([round_])

    def _admits(self, signed: Signed[Vote], slot: dict[tuple[Value, int], Signed[Vote]]) -> bool:
        vote = signed.content
        values = {value for value, _ in slot}
        if vote.value in values or len(values) < FREE_VALUES:
            return True
        count = self._count(vote.step, vote.round, vote.value)
        return count is not None and count.weight >= self._members.attention

    def _make_room(
        self, signed: Signed[Vote], slot: dict[tuple[Value, int], Signed[Vote]] | None
    ) -> bool:
        """Of rounds far ahead each key keeps its two highest."""
        if slot is not None and len(slot) >= FAR_VOTES:
            return False
        far = sorted(
            round_
            for round_, ledger in self._rounds.items()
            if round_ > self.current + AHEAD
            and any((signed.author, step) in ledger.votes for step in VOTE_STEPS)
        )
        if signed.content.round in far or len(far) < FAR_ROUNDS:
            return True
        if signed.content.round < far[0]:
            return False
        lowest = far[0]
        # What rests on a quorum that may now be incomplete is counted anew.
        touched = [lowest] if not self._rounds[lowest].quorums else sorted(self._rounds)
        for step in VOTE_STEPS:
            self._rounds[lowest].votes.pop((signed.author, step), None)
        self._rebuild(touched)
        return True

    def _rebuild(self, rounds: list[int]) -> None:
        """Counts rounds again from the messages left in them."""
        for place, waiting in list(self._waiting.items()):
            self._waiting[place] = [vote for vote in waiting if vote.content.round not in rounds]
        old = {round_: self._rounds.pop(round_) for round_ in rounds}
        self._loud.difference_update(rounds)
        for round_, ledger in old.items():
            if round_ in self._proposers:
                self.hear_proposal(self._proposers[round_], round_)
            for slot in ledger.votes.values():
                for signed in slot.values():
                    self._store(signed)

    # Counting

    def _store(self, signed: Signed[Vote]) -> None:
        vote, author = signed.content, signed.author
        weight = self._members.weights[author]
        ledger = self._rounds.setdefault(vote.round, _Round())
        slot = ledger.votes.setdefault((author, vote.step), {})
        if not slot:
            ledger.any[vote.step] = ledger.any.get(vote.step, 0) + weight
        slot[vote.value, vote.just] = signed
        self._hear(author, vote.round, ledger)
        count = ledger.counts.setdefault((vote.step, vote.value), _Count())
        if author not in count.keys:
            count.keys.add(author)
            count.weight += weight
        if vote.value is None:
            return
        if vote.step == Step.PRECOMMIT:
            self._certify(vote.round, vote.value)
        else:
            self._count_prevote(signed, vote.value)

    def _hear(self, author: PublicKey, round_: int, ledger: _Round) -> None:
        weight = self._members.weights[author]
        if author not in ledger.heard:
            ledger.heard.add(author)
            ledger.heard_weight += weight
            if ledger.heard_weight >= self._members.attention:
                self._loud.add(round_)
        if author != self._first_proposer and author not in self._followers:
            self._followers.add(author)
            self._followers_weight += weight

    def _count_prevote(self, signed: Signed[Vote], value: DecisionId) -> None:
        todo = [signed]
        while todo:
            vote, author = todo[-1].content, todo.pop().author
            ledger = self._rounds.get(vote.round)
            if ledger is None or (value, vote.just) not in ledger.votes.get(
                (author, vote.step), {}
            ):
                continue  # it was dropped while it waited
            if self._counting and vote.just != NO_ROUND and not self._justified(vote.just, value):
                self._waiting.setdefault((vote.just, value), []).append(
                    ledger.votes[author, vote.step][value, vote.just]
                )
                continue
            count = ledger.counts[Step.PREVOTE, value]
            if author in count.counted:
                continue
            count.counted.add(author)
            count.counted_weight += self._members.weights[author]
            if count.counted_weight >= self._members.quorum and value not in ledger.quorums:
                ledger.quorums.append(value)
                todo += self._waiting.pop((vote.round, value), [])
                self._certify(vote.round, value)

    def _justified(self, round_: int, value: DecisionId) -> bool:
        ledger = self._rounds.get(round_)
        return ledger is not None and value in ledger.quorums

    def _certify(self, round_: int, value: DecisionId) -> None:
        count = self._count(Step.PRECOMMIT, round_, value)
        if (
            self.certified is None
            and count is not None
            and count.weight >= self._members.quorum
            and (not self._counting or self._justified(round_, value))
        ):
            self.certified = (value, round_)

    def _count(self, step: Step, round_: int, value: Value) -> _Count | None:
        ledger = self._rounds.get(round_)
        return ledger.counts.get((step, value)) if ledger else None

    # What it amounts to

    def quorums(self, round_: int) -> list[DecisionId]:
        """Decisions with a quorum of counting prevotes in a round, first seen first."""
        ledger = self._rounds.get(round_)
        return ledger.quorums if ledger else []

    def quorate(self, low: int, high: int) -> list[int]:
        """Rounds above low and up to high in which a decision has such a quorum, highest first."""
        return sorted(
            (
                round_
                for round_, ledger in self._rounds.items()
                if ledger.quorums and low < round_ <= high
            ),
            reverse=True,
        )

    def nil_quorum(self, round_: int) -> bool:
        count = self._count(Step.PREVOTE, round_, None)
        return count is not None and count.weight >= self._members.quorum

    def any_weight(self, step: Step, round_: int) -> int:
        ledger = self._rounds.get(round_)
        return ledger.any.get(step, 0) if ledger else 0

    def hopeless(self, round_: int) -> bool:
        """Neither a decision nor nil can reach a quorum of prevotes with those still missing."""
        ledger = self._rounds.get(round_, _Round())
        missing = self._members.total - ledger.any.get(Step.PREVOTE, 0)
        return all(
            count.weight + missing < self._members.quorum
            for (step, _), count in ledger.counts.items()
            if step == Step.PREVOTE
        )

    def loudest_round(self) -> int:
        """The highest round heard from weight a; NO_ROUND if there is none."""
        return max(self._loud, default=NO_ROUND)

    def others_closed(self) -> bool:
        """Members other than the first proposer, of weight a, are at this height."""
        return self._followers_weight >= self._members.attention

    def heard(self, round_: int) -> set[PublicKey]:
        ledger = self._rounds.get(round_)
        return ledger.heard if ledger else set()

    def voters(self, step: Step, round_: int, value: Value) -> list[PublicKey]:
        """Ascending by peer id."""
        count = self._count(step, round_, value)
        keys = count.keys if count else set()
        return [member.key for member in self._members.rows if member.key in keys]

    # Votes themselves

    def votes_of(self, author: PublicKey, step: Step, round_: int) -> Iterable[Signed[Vote]]:
        """In the order in which they came."""
        ledger = self._rounds.get(round_)
        return ledger.votes.get((author, step), {}).values() if ledger else ()

    def votes_in(self, round_: int) -> Iterator[Signed[Vote]]:
        ledger = self._rounds.get(round_)
        if ledger:
            for slot in ledger.votes.values():
                yield from slot.values()

    def rounds_between(self, low: int, high: int | None) -> list[int]:
        """Rounds with messages, both ends left out; no upper end if high is None."""
        return [
            round_ for round_ in self._rounds if low < round_ and (high is None or round_ < high)
        ]

    def closure(self, round_: int, value: DecisionId) -> tuple[Signed[Vote], ...]:
        """A quorum of counting prevotes, one per key, and one for each round their justs name."""
        chosen: dict[int, list[Signed[Vote]]] = {}
        todo = [round_]
        while todo:
            current = todo.pop()
            if current in chosen:
                continue
            chosen[current] = self._lightest_quorum(current, value)
            todo += [
                signed.content.just for signed in chosen[current] if signed.content.just != NO_ROUND
            ]
        return tuple(signed for each in sorted(chosen) for signed in chosen[each])

    def _lightest_quorum(self, round_: int, value: DecisionId) -> list[Signed[Vote]]:
        """A quorum of counting prevotes that need the least beside them; all if they are none."""
        offers = []
        for position, member in enumerate(self._members.rows):
            justs = [
                vote.content.just
                for vote in self.votes_of(member.key, Step.PREVOTE, round_)
                if vote.content.value == value
                and (
                    vote.content.just == NO_ROUND
                    or not self._counting
                    or self._justified(vote.content.just, value)
                )
            ]
            if justs:
                offers.append((min(justs), position))
        ledger, chosen, weight = self._rounds.get(round_), [], 0
        for just, position in sorted(offers):
            if ledger is None or weight >= self._members.quorum:
                break
            member = self._members.rows[position]
            chosen.append(ledger.votes[member.key, Step.PREVOTE][value, just])
            weight += member.weight
        return chosen

    def certificate(self, value: DecisionId, round_: int) -> Certificate:
        """Made of a quorum of the precommits held."""
        precommits: list[Signed[Vote]] = []
        weight = 0
        for key in self.voters(Step.PRECOMMIT, round_, value):
            if weight < self._members.quorum:
                precommits += [
                    signed
                    for signed in self.votes_of(key, Step.PRECOMMIT, round_)
                    if signed.content.value == value
                ]
                weight += self._members.weights[key]
        return Certificate(value, round_, tuple(precommits), self.closure(round_, value))


VOTE_STEPS = (Step.PREVOTE, Step.PRECOMMIT)
