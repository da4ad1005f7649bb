"""From heads that a node has to one that it lacks, by the steps that decisions certify."""

from collections.abc import Sequence

from p2pd.core.ids import ArtifactId
from p2pd.core.revision import Revision
from p2pd.core.work import RebuildJob
from p2pd.node.chronicle import Chronicle
from p2pd.node.heads import KEPT_HEADS
from p2pd.ports import BlobStore

STEPS_MOST = 3
"""As many weigh less than a head."""


def ways_to(
    head: ArtifactId, revision: Revision, chronicle: Chronicle, blobs: BlobStore
) -> Sequence[RebuildJob]:
    """How a head is made, one step after the other, of one that is here; none if it cannot, or is here.

    Steps are looked for where every node keeps them: in the last heights.
    """
    if revision.head_codec == "f32" or blobs.has(head):
        return ()
    jobs: list[RebuildJob] = []
    for decision in chronicle.newest(KEPT_HEADS):
        step = decision.step
        if step is None or decision.head != head:
            continue
        jobs.insert(0, RebuildJob(head, step, revision.schema, revision.head_codec))
        if blobs.has(step.base):
            return jobs
        head = step.base
        if len(jobs) == STEPS_MOST:
            break
    return ()
