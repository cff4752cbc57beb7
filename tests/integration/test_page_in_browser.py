"""The router's page in a browser, with real workers behind it: a killed worker, a chat, where a request's time went, and the
commands that it offers to copy."""
import json
import pathlib
import re
import subprocess
import sys
import urllib.request

import pytest
from google.protobuf import json_format

import browser as browsers
from cluster import READY_TIMEOUT_S, SOON_S, Cluster, free_port
from stubs import pb

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
import pypi_packages  # noqa: E402

MARKUP = "<img src=x onerror=document.title='broken'>"
ANSWER_S = 60
GROWING = ".answer[aria-busy=true] .text"
# Lane of the waterfall -> the figure of `timings` that its extent equals.
STAGES = {"prefill": "prefill_ms", "transfer": "kv_transfer_ms", "decode": "decode_ms"}


@pytest.fixture(scope="module")
def browser():
    if (why := browsers.lacking()) is not None:
        pytest.skip(why)
    opened = browsers.Browser()
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def served():
    port = free_port()
    with Cluster(prefill=1, decode=2, router_args=[f"--http-listen=127.0.0.1:{port}", "--disaggregate=always"]) as cluster:
        cluster.http = f"http://127.0.0.1:{port}"
        yield cluster


@pytest.fixture
def page(browser, served):
    """The page as it is opened anew; its console must have nothing to complain of in the end."""
    browser.log()
    browser.look()

    def show(view=""):
        browser.open(f"{served.http}/#/{view}")
        browser.wait(lambda: browser.text("#pulse"), SOON_S, "the page has heard of its router")
        return browser

    yield show
    assert [line for line in browser.log() if "Content Security Policy" in line] == []


def fill(browser, **fields):
    """Types into fields of the form, named as in the page: in place of what stands there."""
    browser.js("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    for name, value in fields.items():
        if name != "beside":
            browser.find(f"#{name}").clear()
        browser.type(f"#{name}", value)


def ask(browser, text, **fields):
    """Sends `text` as a chat, with fields of the form filled in beforehand; returns when the answer is whole."""
    fill(browser, **fields)
    before = browser.js("return document.querySelectorAll('.answer').length")
    browser.type("#draft", text + "\n")
    browser.wait(lambda: browser.js("return document.querySelectorAll('.answer').length") > before, SOON_S, "an answer begins")
    browser.wait(lambda: not browser.js("return document.querySelector('.answer[aria-busy=true]') !== null"), ANSWER_S, "it ends")


def test_a_killed_worker_is_seen_within_three_seconds_and_so_is_its_return(served, page):
    browser = page("fleet")
    workers = "return [...document.querySelectorAll('#workers tr')].map((row) => row.dataset.state)"
    browser.wait(lambda: browser.js(workers) == ["ready"] * 3, SOON_S, "three workers are ready")
    browser.wait(lambda: browser.text("#verdict") == "All well", SOON_S, "all is well")
    served.decode[1].kill()
    browser.wait(lambda: sorted(browser.js(workers))[:2] == ["ready", "ready"] and browser.js(workers).count("ready") == 2, 3,
                 "one worker is not ready")
    assert browser.text("#verdict") != "All well"
    browser.wait(lambda: browser.shown("#events li[data-kind=worker_down]"), SOON_S, "the event")
    served.decode[1].start()
    browser.wait(lambda: browser.js(workers) == ["ready"] * 3, READY_TIMEOUT_S, "it is back")


def begin_long_answer(browser):
    """Returns when its first text is shown, which is returned; it goes on for many seconds."""
    fill(browser, **{"max-tokens": "", "temperature": "0"})
    browser.type("#draft", "Write a very long story.\n")
    return browser.wait(lambda: browser.text(GROWING), ANSWER_S, "the first token")


def test_the_text_of_a_chat_grows_as_tokens_come(page):
    browser = page("try")
    begun = begin_long_answer(browser)
    browser.wait(lambda: len(browser.text(GROWING) or "") > len(begun), ANSWER_S, "more of the text, before its end")
    browser.click("#stop-answer")


def test_it_is_told_how_a_chat_ended(page):
    browser = page("try")
    ask(browser, "Tell me a story of a dog.", **{"max-tokens": "40", "temperature": "0"})
    assert "40 tokens" in browser.text(".answer .about") and "finish: length" in browser.text(".answer .about")


def test_the_seed_that_is_told_gives_the_same_answer_again(page):
    browser = page("try")
    ask(browser, "Name a bird.", **{"max-tokens": "12", "temperature": "1"})
    text = browser.text(".answer .text")
    seed = re.search(r"seed (\d+)", browser.text(".answer .about")).group(1)
    browser.type("#seed", seed)
    browser.click("#retry")
    browser.wait(lambda: "finish" in (browser.text(".answer[aria-busy=false] .about") or ""), ANSWER_S, "an answer")
    assert browser.text(".answer .text") == text


def test_a_second_answer_stands_beside_the_first_and_the_chat_goes_on_with_the_chosen_one(page):
    browser = page("try")
    ask(browser, "Name a colour.", **{"max-tokens": "12", "seed": "5", "temperature": "1", "beside": "the same with"})
    kept = "JSON.parse(sessionStorage.getItem('baton-chat')).entries.at(-1).answers"
    texts = browser.js(f"return {kept}.map((each) => each.choice.text)")
    assert len(texts) == 2 and texts[0] != texts[1]
    browser.click(".answer:nth-child(2) > button")
    assert browser.js("return document.querySelectorAll('.answer')[1].classList.contains('chosen')")
    assert browser.js(f"return {kept}.map((each) => each.chosen)") == [False, True]
    browser.type("#draft", "Another one.")
    browser.click("[data-copy=curl]")
    assert json.dumps(texts[1], ensure_ascii=False) in browser.text("#command")


def test_an_answer_with_markup_stays_text(page):
    browser = page("try")
    schema = {"type": "object", "properties": {"text": {"const": MARKUP}}, "required": ["text"], "additionalProperties": False}
    ask(browser, f"Say {MARKUP}", schema=json.dumps(schema), **{"max-tokens": "64", "temperature": "0"})
    assert MARKUP in browser.text(".answer .text")
    browser.click(".answer .about a")
    browser.wait(lambda: browser.shown(".tokens .token"), SOON_S, "the tokens")
    assert MARKUP in browser.text(".tokens")
    assert browser.js("return document.querySelectorAll('main img').length") == 0
    assert "broken" not in browser.driver.title


def test_an_error_is_shown_whole_and_retry_sends_the_question_again(page):
    browser = page("try")
    ask(browser, "Hello", **{"top-p": "7"})
    error = browser.text(".answer .error")
    assert "top_p" in error and "status: 400" in error and "request: page-" in error
    fill(browser, **{"top-p": "", "max-tokens": "8", "temperature": "0"})
    browser.click("#retry")
    browser.wait(lambda: "8 tokens" in (browser.text(".answer .about") or ""), ANSWER_S, "an answer")
    assert not browser.shown(".answer .error")


def test_stop_ends_the_answer_and_its_request(served, page):
    browser = page("try")
    begin_long_answer(browser)
    browser.click("#stop-answer")
    browser.wait(lambda: "Stopped." in browser.text(".answer"), SOON_S, "it has stopped")
    served.wait_idle()


def test_the_lanes_of_the_waterfall_add_up_to_the_timings_of_the_answer(served, page):
    body = {"messages": [{"role": "user", "content": "Count the sheep. " * 60}], "max_tokens": 12, "temperature": 0, "seed": 1,
            "return_timings": True}
    sent = urllib.request.Request(f"{served.http}/v1/chat/completions", json.dumps(body).encode(),
                                  {"Content-Type": "application/json", "x-request-id": "counted"})
    with urllib.request.urlopen(sent, timeout=ANSWER_S) as response:
        timings = json.loads(response.read())["choices"][0]["timings"]
    browser = page("requests/counted")
    browser.wait(lambda: browser.shown("#waterfall .lane[data-lane=decode]"), SOON_S, "the waterfall")
    lanes = browser.js("""return Object.fromEntries([...document.querySelectorAll('#waterfall .lane[data-lane]')]
        .map((lane) => [lane.dataset.lane, lane.dataset.endMs - lane.dataset.startMs]))""")
    for lane, figure in STAGES.items():
        assert lanes[lane] == pytest.approx(timings[figure], abs=0.01), lane
    told = browser.js("""return Object.fromEntries([...document.querySelectorAll('#timings [data-timing]')]
        .map((row) => [row.dataset.timing, Number(row.dataset.ms)]))""")
    for figure, value in told.items():
        assert figure == "rest_ms" or value == timings[figure], figure
    in_turn = ["queue_ms", "prefill_queue_ms", "prefill_ms", "exposed_kv_transfer_ms", "decode_queue_ms", "decode_ms", "rest_ms"]
    assert sum(told.get(figure, 0) for figure in in_turn) == pytest.approx(timings["total_ms"], abs=0.01)


def test_tokens_of_a_chat_from_the_page_have_their_alternatives_on_focus(page):
    browser = page("try")
    ask(browser, "What is the capital of France?", **{"max-tokens": "8", "temperature": "0"})
    answer = browser.text(".answer .text")
    browser.click(".answer .about a")
    browser.wait(lambda: browser.shown(".tokens .token"), SOON_S, "the tokens")
    assert browser.text(".tokens") == answer
    browser.js("document.querySelector('.tokens .token').focus()")
    assert browser.js("return document.querySelectorAll('.alternatives tbody tr').length") == 5
    assert browser.js("return document.querySelectorAll('.alternatives tr.chosen').length") == 1
    assert browser.check("faintTexts") == []


def test_the_cache_is_shown_by_states_and_by_what_it_shares(served, page):
    browser = page("try")
    for _ in range(2):
        ask(browser, "Tell me of a long and shared beginning, of sheep and dogs and of all that they do. " * 4,
            **{"max-tokens": "4", "temperature": "0"})
    browser.js("location.hash = '#/kv'")
    browser.wait(lambda: browser.shown("#kv-workers .picture"), SOON_S, "the pictures")
    browser.wait(lambda: browser.shown("#prefixes tr"), SOON_S, "the prefixes")
    assert browser.js("return document.querySelectorAll('#kv-workers > li').length") == 3
    assert "int8" in browser.text("#kv-workers") and "int4" in browser.text("#kv-workers")


def copied(browser, form):
    browser.click(f"[data-copy={form}]")
    browser.wait(lambda: "opied" in browser.text(".copy [role=status]"), SOON_S, "a word on the copy")
    return browser.text("#command")


def test_the_commands_to_copy_do_what_the_page_does(served, page):
    browser = page("try")
    fill(browser, **{"max-tokens": "6", "temperature": "0", "seed": "3"})
    browser.js("document.getElementById('draft').value = `What's \"2 + 2\"?\\n$HOME \\`id\\` \\\\ JSON`")
    curl, grpcurl, python = (copied(browser, form) for form in ("curl", "grpcurl", "python"))

    streamed = subprocess.run(["bash", "-c", curl], capture_output=True, text=True, timeout=ANSWER_S).stdout
    chunks = [json.loads(line[5:]) for line in streamed.splitlines() if line.startswith("data: {")]
    text = "".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"])
    assert text and "[DONE]" in streamed

    # grpcurl reads protobuf's JSON from its standard input, and so does this.
    asked = json_format.Parse(grpcurl.split("<<'JSON'\n")[1].removesuffix("JSON"), pb.GenerateRequest())
    assert "".join(each.chunk.text for each in served.stub.Generate(asked, timeout=ANSWER_S)) == text

    pypi_packages.or_skip(pypi_packages.install, HERE.parent / "support" / "client_requirements.txt")
    done = subprocess.run([sys.executable, "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{python}"],
                          capture_output=True, text=True, timeout=ANSWER_S)
    assert done.stdout == text + "\n", done.stderr


def test_a_router_that_ends_has_a_banner_until_it_is_back(served, page):
    browser = page("fleet")
    served.router.kill()
    browser.wait(lambda: browser.shown("#banner"), SOON_S, "the banner")
    assert "does not answer" in browser.text("#banner")
    served.router.start()
    browser.wait(lambda: not browser.shown("#banner"), READY_TIMEOUT_S, "the banner is gone")
