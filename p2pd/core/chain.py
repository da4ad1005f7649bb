"""The certified chain as anyone checks it: link by link, each certificate against the set of its height."""

from p2pd.core.checking import check_choices
from p2pd.core.decision import Decision, Record
from p2pd.core.derive import Setting, derive, is_bound, members_hash
from p2pd.core.messages import Choices
from p2pd.core.revision import Revision
from p2pd.core.voting.certificate import check_certificate
from p2pd.core.work import Merged
from p2pd.errors import RemoteError


def check_certified(setting: Setting, previous: Decision, record: Record) -> None:
    """Checks that record follows previous and was decided by a quorum, before anything nested in it is looked at.

    Raises:
        RemoteError: it does not; the message names the height.
    """
    decision = record.decision
    height = previous.height + 1
    if decision.height != height or decision.header.previous != previous.id:
        raise RemoteError(f"height {decision.height}: does not follow decision {previous.height}")
    _check_quorum(setting, previous, record)


def check_jump(setting: Setting, known: Decision, record: Record) -> None:
    """Checks a decision of any later height, where those between are not here.

    It was certified by the very set that known says comes next. That suffices: had the set changed in between, its
    honest members would have signed no height above that as this set, and the others are no quorum. What it says is
    bound by its header; that it follows from the decision before it is for the quorum to answer for.

    Raises:
        RemoteError: as check_certified.
    """
    decision = record.decision
    if decision.height <= known.height:
        raise RemoteError(f"height {decision.height}: not after decision {known.height}")
    _check_quorum(setting, known, record)
    if not is_bound(setting, decision):
        raise RemoteError(f"height {decision.height}: its header is of another body")


def _check_quorum(setting: Setting, known: Decision, record: Record) -> None:
    """By the set that known says comes next."""
    decision, height = record.decision, record.decision.height
    header = decision.header
    if (header.term, header.revision) != (setting.term, setting.revision.id):
        raise RemoteError(f"height {height}: of another term or revision")
    members = setting.members(known.state.suspended)
    if header.members != members_hash(members):
        raise RemoteError(f"height {height}: names another validator set")
    certificate = record.certificate
    if certificate is None:
        raise RemoteError(f"height {height}: no certificate")
    if certificate.value != decision.id:
        raise RemoteError(f"height {height}: its certificate is for another decision")
    electorate = setting.electorate(known.state.suspended)
    try:
        check_certificate(electorate, setting.scope(height), certificate)
    except RemoteError as error:
        raise RemoteError(f"height {height}: {error}") from error


def check_record(setting: Setting, previous: Decision, record: Record, choices: Choices) -> None:
    """Checks that record follows previous and was decided by a quorum.

    The choices are those of the record, with all nested signatures verified. What is not checked is what needs
    tensors: the verdicts, and that the merged artifact is the merge of its cohort; the quorum answers for these.

    Raises:
        RemoteError: it does not; the message names the height.
    """
    check_certified(setting, previous, record)
    check_derived(setting, previous, record, choices)


def check_derived(setting: Setting, previous: Decision, record: Record, choices: Choices) -> None:
    """The second half of check_record: what is certified follows from its own choices.

    Raises:
        RemoteError: as check_record.
    """
    decision = record.decision
    height = decision.height
    try:
        check_choices(setting, previous, choices)
        derived = derive(setting, previous, choices, decision.choices, decision.merged)
    except RemoteError as error:
        raise RemoteError(f"height {height}: {error}") from error
    merged, revision = decision.merged, setting.revision
    if merged is not None and (merged.outer is not None) != (revision.state_parts > 0):
        raise RemoteError(f"height {height}: its outer state is not what the revision's rule keeps")
    if merged is not None and not _is_stepped(revision, previous, merged):
        raise RemoteError(f"height {height}: its head is not made as the revision says")
    if derived != decision:
        raise RemoteError(f"height {height}: does not follow from its own choices")


def _is_stepped(revision: Revision, previous: Decision, merged: Merged) -> bool:
    """Whether it names a step where heads are made of them: from the base of the plan that was merged."""
    if revision.head_codec == "f32":
        return merged.step is None
    return merged.step is not None and merged.step.base == previous.state.plan.base
