from p2pd.core.ids import ArtifactId
from p2pd.core.trainer import Trained
from p2pd.core.validator.events import EvaluationDone, Fetched
from p2pd.core.work import Progress, TrainJob
from p2pd.node.steps import Step, Steps
from tests.core.builders import running

JOB = TrainJob(1, ArtifactId(bytes(32)), (0,), 16, Progress(0, 0, 0, 0, 0), 0)


def test_a_height_remembers_when_each_step_was_done_for_the_last_time() -> None:
    steps = Steps()
    steps.opened_s = 10.0
    steps.note(Step.PUBLISH, 11.0)
    steps.saw(Fetched(ArtifactId(bytes(32)), here=True), 11.5)
    steps.saw(Fetched(ArtifactId(bytes(32)), here=True), 12.0)
    steps.saw(EvaluationDone(ArtifactId(bytes(32)), None), 12.5)
    steps.saw("something else", 13.0)
    times = steps.turn(running(), 14.0, newest=True)
    assert times.reached == {
        Step.PUBLISH: 1.0,
        Step.FETCH: 2.0,
        Step.EVALUATE: 2.5,
        Step.ADOPT: 4.0,
    }
    assert (times.train_s, times.overhead_s) == (1.0, 3.0)


def test_the_next_height_begins_where_the_last_one_ended() -> None:
    steps = Steps()
    steps.turn(running(), 4.0, newest=True)
    steps.saw(Trained(JOB, None, "broken"), 4.25)
    times = steps.turn(running(), 5.0, newest=True)
    assert times.reached == {Step.TRAIN: 0.25, Step.ADOPT: 1.0}
    assert (times.train_s, times.overhead_s) == (0.0, 1.0)


def test_waiting_and_checking_end_with_the_first_proposal_and_voting_begins() -> None:
    steps = Steps()
    steps.note(Step.PUBLISH, 1.0)
    steps.proposed(119.0)
    steps.proposed(119.5)
    times = steps.turn(running(), 120.0, newest=True)
    assert (times.train_s, times.overhead_s, times.vote_s) == (1.0, 119.0, 1.0)


def test_an_update_after_the_proposal_leaves_no_time_to_wait_for_it() -> None:
    steps = Steps()
    steps.proposed(1.0)
    steps.note(Step.PUBLISH, 2.0)
    times = steps.turn(running(), 4.0, newest=True)
    assert times.vote_s == times.overhead_s == 2.0


def test_a_height_takes_as_long_as_this_node_saw_only_where_it_was_not_catching_up() -> None:
    steps, took = Steps(), []
    for now_s, newest in ((1.0, False), (2.0, True), (5.0, True), (5.5, False)):
        took.append(steps.turn(running(), now_s, newest=newest).took_s)
    assert took == [None, None, 3.0, None]
