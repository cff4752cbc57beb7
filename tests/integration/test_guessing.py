"""Guessed tokens change no answer, whatever becomes of its workers: a short form of scripts/guessing.sh, and deaths in detail."""
import pytest

from cluster import complete, request, wait_until
from guessing import FORM, compare, outcome, serving
from stubs import pb

GREEDY, SAMPLED = {"temperature": 0.0}, {"temperature": 0.6, "top_p": 0.9, "seed": 5}


@pytest.fixture(scope="module")
def fleet():
    with serving() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def fleet_without_draft_model():
    with serving(draft_model="") as cluster:
        yield cluster


def test_answers_are_those_without_guesses_on_every_way(fleet):
    report = compare(fleet, count=10, max_tokens=48, modes={"ngram": pb.SPECULATIVE_NGRAM})
    assert not any(cell["wrong"] for cell in report.values()), report


# A handful of requests cannot be sure of enough guesses while workers are killed: the deaths below are at moments that are.
UNDISTURBED = ("handed off", "local", "16 at once")


def test_sampled_answers_are_those_without_drafts_on_every_undisturbed_way(fleet):
    report = compare(fleet, count=2, max_tokens=48, modes={"draft": pb.SPECULATIVE_DRAFT}, samplings=["seeded"], ways=UNDISTURBED)
    assert not any(cell["wrong"] for cell in report.values()), report


def test_answers_in_a_form_are_those_without_guesses_on_every_undisturbed_way(fleet_without_draft_model):
    report = compare(fleet_without_draft_model, count=2, max_tokens=64, modes={"forced": pb.SPECULATIVE_DRAFT}, form=FORM,
                     samplings=["seeded"], ways=UNDISTURBED)
    assert not any(cell["wrong"] for cell in report.values()), report


def made(sampling, mode, salt, max_tokens, stream=False, form=""):
    asked = request(ids=[(i * i) % 4000 + 100 for i in range(20)] * 2, stream=stream, ignore_eos=True, max_tokens=max_tokens,
                    logprobs=2, **sampling)
    asked.speculative, asked.cache_salt = mode, salt
    if form:
        asked.response_format.regex = form
    return asked


def accepted(worker):
    return worker.metric("baton_guessed_tokens_total", result="accepted")


def check_goes_on_with_guesses_after_the_death_of_its_worker(fleet, stub, mode, ask):
    """`ask(mode, salt, stream)` makes the request, whose guesses come true."""
    right = complete(stub, ask(pb.SPECULATIVE_NONE, "right", False))
    before = {worker: accepted(worker) for worker in fleet.decode}
    call = stub.Generate(ask(mode, "guessed", True), timeout=120)
    responses = [next(call)]
    victim = wait_until(lambda: next((w for w in fleet.decode if accepted(w) > before[w] + 10), None), 30, "guesses come true")
    victim.kill()
    responses += call
    (survivor,) = (worker for worker in fleet.decode if worker is not victim)
    accepted_next = accepted(survivor) - before[survivor]
    fleet.revive()

    done = responses[-1].complete
    for response in responses[:-1]:
        done.token_ids.extend(response.chunk.token_ids)
        done.logprobs.extend(response.chunk.logprobs)
    done.text = "".join(response.chunk.text for response in responses)
    assert outcome(done) == outcome(right)
    assert done.timings.attempts == 2 and done.timings.exact
    assert done.usage.accepted_prediction_tokens >= accepted_next > 10, "the next attempt's, and those before it"


@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED])
@pytest.mark.parametrize("router", [0, 1])
def test_a_stream_whose_guesses_came_true_goes_on_with_guesses_after_the_death_of_its_worker(fleet, sampling, router):
    check_goes_on_with_guesses_after_the_death_of_its_worker(
        fleet, fleet.stubs[router], pb.SPECULATIVE_NGRAM,
        lambda mode, salt, stream: made(sampling, mode, salt, 600, stream))


def test_a_stream_whose_drafts_came_true_goes_on_with_drafts_after_the_death_of_its_worker(fleet):
    check_goes_on_with_guesses_after_the_death_of_its_worker(
        fleet, fleet.stub, pb.SPECULATIVE_DRAFT, lambda mode, salt, stream: made(SAMPLED, mode, salt, 120, stream))


def test_a_stream_in_a_form_goes_on_with_guesses_after_the_death_of_its_worker(fleet_without_draft_model):
    check_goes_on_with_guesses_after_the_death_of_its_worker(
        fleet_without_draft_model, fleet_without_draft_model.stub, pb.SPECULATIVE_DRAFT,
        lambda mode, salt, stream: made(SAMPLED, mode, salt, 250, stream, form=f"({FORM}\n){{5}}"))


@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED])
def test_a_draft_models_guesses_change_no_answer(fleet, sampling):
    def ask(router, mode, salt):
        return complete(fleet.stubs[router], made(sampling, mode, salt, 48))

    right = ask(0, pb.SPECULATIVE_NONE, "not drafted")
    for router in (0, 1):
        done = ask(router, pb.SPECULATIVE_DRAFT, "drafted")
        assert outcome(done) == outcome(right)
        guesses = done.usage.accepted_prediction_tokens + done.usage.rejected_prediction_tokens
        assert guesses > 20
        if sampling["temperature"] == 0.0:
            assert done.usage.accepted_prediction_tokens == guesses, "the model is its own draft model here"
    assert all(worker.metric("baton_draft_model_bytes", part="kv_cache") > 0 for worker in fleet.decode)
