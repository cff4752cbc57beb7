"""The router's page before fleets, requests and errors that are played to it: what it says of each, and whether everybody can
read and reach it."""
import time

import pytest

import browser as browsers
from played_router import PlayedRouter

WORKER_STATES = ["ready", "starting", "draining", "unreachable", "quarantined", "stuck", "suspected", "refused"]
REQUEST_STATES = ["queued", "prefill", "transfer", "decode", "done", "failed", "cancelled"]
KINDS = ["worker_up", "worker_down", "worker_draining", "quarantined", "refused", "retried", "resumed", "failed", "cancelled"]
LONG = "a_name_without_end_" * 12
MARKUP = "<img src=x onerror=document.title='broken'>"


def worker(name, state="ready", role="decode", **more):
    return {"name": name, "role": role, "address": f"127.0.0.1:{name}", "state": state, "running": 2, "waiting": 1, "in_flight": 3,
            "blocks": {"total": 4096, "used": 100, "cached": 200, "free": 3796}, "tokens_per_second": 12.5,
            "handoffs_per_second": 1.5, "handoff_bytes_per_second": 4e6, "exposed_transfer_ms": 1.2, "silent_ms": 40,
            "version": "0.1.0", "weights": "Q4_1", "kv_dtype": "f16", "block_size": 16, **more}


def fleet(workers, events=(), refused=0, **more):
    return {"now": time.time(), "version": "0.1.0", "model": "SmolLM2", "tokens_per_second": 25.0,
            "prompt_tokens_per_second": 100.0, "handoffs_per_second": 1.5, "handoff_bytes_per_second": 4e6,
            "routers": [{"name": "router", "state": "serving", "uptime_s": 100, "running": 1, "waiting": 0, "streams_behind": 0,
                         "refused": {"queue_full": refused}}], "workers": workers, "events": list(events), **more}


def advice(why, **more):
    return {"prefill": {"ready": 4, "needed": 4.19, "advised": 5, "balanced": 3, "why": why}, "decode": {"ready": 3, "why": why},
            "colocated": {"workers": 6, "prompt_share": 0.2}, **more}


def event(number, kind="retried", **more):
    return {"number": number, "at": time.time() - 5, "kind": kind, "worker": "decode-0", "request": f"request-{number}",
            "text": "the push broke", **more}


def listed(name, state="done", **more):
    return {"id": name, "received": time.time() - 9, "state": state, "stage_ms": 12.0, "prompt_tokens": 40, "cached_tokens": 16,
            "output_tokens": 8, "ttft_ms": 31.0, "total_ms": 120.0, "attempts": 1, "prefill_worker": "prefill-0",
            "decode_worker": "decode-0", "finish": "stop", **more}


def in_full(name):
    spans = [{"lane": "queue", "try": 1, "start_ms": 0, "end_ms": 5}, {"lane": "prefill", "try": 1, "start_ms": 5, "end_ms": 40, "tokens": 40},
             {"lane": "transfer", "try": 1, "start_ms": 15, "end_ms": 30, "layers": [0, 7], "bytes": 90000},
             {"lane": "decode", "try": 2, "start_ms": 60, "end_ms": 120}]
    return {**listed(name, attempts=2), "spans": spans,
            "timings": {"queue_ms": 5.0, "prefill_ms": 35.0, "kv_transfer_ms": 15.0, "exposed_kv_transfer_ms": 1.0,
                        "decode_ms": 60.0, "time_to_first_token_ms": 31.0, "total_ms": 120.0, "attempts": 2, "exact": True},
            "transfer": {"bytes": 90000, "bytes_saved": 10, "bytes_resent": 0, "messages": 4, "wire_dtype": "f16"},
            "tries": [{"number": 1, "start_ms": 0, "end_ms": 50, "prefill_worker": "prefill-0", "decode_worker": "decode-1",
                       "failure": "decode-1 was lost"},
                      {"number": 2, "start_ms": 50, "end_ms": 120, "decode_worker": "decode-0", "local_prefill": True}]}


def history(points=180, **more):
    """The last `points` of 15 minutes, each value its place in the list."""
    now = time.time()
    numbers = list(range(points))
    lists = ("tokens_per_second", "prompt_tokens_per_second", "handoffs_per_second", "handoff_bytes_per_second", "running", "waiting", "ttft_ms")
    return {"now": now, "interval_s": 5, "length_s": 900, "at": [now - 5 * (points - number) for number in numbers],
            **{name: numbers for name in lists}, **more}


def kv():
    one = {**worker(LONG), "bytes_per_token": 23040, "bytes_per_token_of": {"f16": 23040, "int8": 12240, "int4": 6840}, "prefix_pages": 3}
    pages = [{"page": f"{number:016x}", "tokens": 16, "depth_tokens": 16 * number, "reused": 20 - number, "holders": 1, "workers": ["decode-0"],
              **({"parent": f"{number - 1:016x}"} if number > 1 else {})} for number in range(1, 6)]
    return {"workers": [one, worker("decode-0", blocks={"total": 4096, "used": 0, "cached": 1, "free": 4095})], "prefixes": pages}


def everything():
    """Every state that there is, with long names."""
    workers = [worker(f"{state}-{LONG}", state, problem=f"the {LONG}") for state in WORKER_STATES] + [worker("decode-0"), worker("prefill-0", role="prefill")]
    requests = [listed(f"{state}-{LONG}", state, error=f"UNAVAILABLE: {LONG}") for state in REQUEST_STATES] + [listed("mine")]
    return {"/page/history": history(), "/page/fleet": fleet(workers, [event(number, kind, text=LONG) for number, kind in enumerate(KINDS)], refused=3,
                                 advice=advice(LONG)),
            "/page/requests": {"requests": requests}, "/page/requests/mine": in_full("mine"), "/page/kv": kv()}


VIEWS = {"fleet": "#workers tr:nth-child(10)", "requests": "#requests tr:nth-child(8)", "requests/mine": "#waterfall .lane", "try": "#draft",
         "kv": "#prefixes tr"}


@pytest.fixture(scope="module")
def browser():
    if (why := browsers.lacking()) is not None:
        pytest.skip(why)
    opened = browsers.Browser()
    yield opened
    opened.close()


@pytest.fixture
def router():
    with PlayedRouter(everything()) as played:
        yield played


def show(browser, router, view, **look):
    browser.look(**look)
    browser.open(f"{router.address}/#/{view}")
    browser.wait(lambda: browser.shown(VIEWS[view]) and browser.text("#pulse"), 10, f"{view} is shown")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", VIEWS)
def test_every_text_stands_out_from_its_ground(browser, router, view, scheme):
    show(browser, router, view, scheme=scheme)
    assert browser.check("faintTexts") == []


def test_the_chosen_colours_outweigh_those_of_the_system(browser, router):
    show(browser, router, "fleet", scheme="light")
    light = browser.js("return getComputedStyle(document.body).backgroundColor")
    browser.type("#theme", "dark")
    assert browser.js("return getComputedStyle(document.body).backgroundColor") != light
    assert browser.check("faintTexts") == []
    browser.type("#theme", "as the system")


@pytest.mark.parametrize("view", VIEWS)
def test_every_control_has_a_name_and_tab_reaches_it(browser, router, view):
    show(browser, router, view)
    browser.js("for (const each of document.querySelectorAll('details')) each.open = true")
    assert browser.nameless() == []
    browser.js("document.activeElement.blur()")
    count = browser.js(f"{browsers.CHECKS}\nreturn controls().length")
    reached = set()
    for _ in range(count + 2):
        browser.press("TAB")
        found = browser.check("focused")
        assert found["index"] < 0 or found["marked"], f"control {found['index']} does not show its focus"
        reached.add(found["index"])
    assert set(range(count)) <= reached


def test_the_link_that_skips_the_navigation_leads_into_the_view_that_is_shown(browser, router):
    show(browser, router, "requests")
    browser.press("TAB")
    assert browser.js("return document.activeElement.className") == "skip"
    browser.press("ENTER")
    browser.wait(lambda: browser.js("return document.activeElement.id") == "content", 10, "the content has the focus")
    assert browser.js("return location.hash") == "#/requests" and browser.shown(VIEWS["requests"])


@pytest.mark.parametrize("view", ["toString", "constructor/1", "unheard-of"])
def test_what_is_no_view_is_the_fleet(browser, router, view):
    browser.open(f"{router.address}/#/{view}")
    browser.wait(lambda: browser.shown(VIEWS["fleet"]), 10, "the fleet")


def test_arrow_keys_go_from_span_to_span_of_the_waterfall(browser, router):
    show(browser, router, "requests/mine")
    browser.js("document.querySelector('#waterfall .span[tabindex=\"0\"]').focus()")
    assert browser.text("#span-detail").startswith("Queue · 5.0 ms, from 0 ms to 5.0 ms")
    browser.press("ARROW_RIGHT")
    assert browser.text("#span-detail").startswith("Prefill · 40 tokens · 35.0 ms, from 5.0 ms to 40.0 ms")
    browser.press("END")
    assert browser.text("#span-detail").startswith("Decode · 60.0 ms")
    assert browser.js("return document.querySelectorAll('#waterfall .span[tabindex=\"0\"]').length") == 1


@pytest.mark.parametrize("view", VIEWS)
def test_nothing_is_wider_than_a_narrow_window(browser, router, view):
    show(browser, router, view, width=browsers.NARROW, height=780)
    browser.js("""for (const each of document.querySelectorAll('details')) each.open = true;
               document.querySelector('[data-copy=curl]')?.click()""")
    assert browser.check("tooWide") == []


@pytest.mark.parametrize("workers, level, title", [
    ([worker("prefill-0", role="prefill"), worker("decode-0")], "good", "All well"),
    ([], "bad", "No worker has joined"),
    ([worker("prefill-0", role="prefill"), worker("decode-0", "unreachable")], "bad", "no decode worker is ready"),
    ([worker("decode-0"), worker("decode-1", "stuck")], "warn", "decode-1 is stuck"),
    ([worker("decode-0"), worker("decode-1", "draining")], "warn", "decode-1 is draining"),
    ([worker("prefill-0", "starting", role="prefill"), worker("decode-0")], "warn", "No prefill worker is ready"),
])
def test_one_sentence_says_whether_it_is_well(browser, router, workers, level, title):
    router.answers["/page/fleet"] = fleet(workers)
    browser.look()
    browser.open(f"{router.address}/")
    browser.wait(lambda: title in browser.text("#verdict"), 10, title)
    assert browser.js("return document.querySelector('.verdict').dataset.level") == level
    assert (browser.text(".verdict .badge") != "") and browser.shown(".verdict .badge svg")


def test_refused_requests_are_told_of(browser, router):
    router.answers["/page/fleet"] = fleet([worker("decode-0")], refused=3)
    browser.open(f"{router.address}/")
    browser.wait(lambda: browser.text("#verdict") == "All well", 10, "refusals from before the page was opened are no news")
    router.answers["/page/fleet"] = fleet([worker("decode-0")], refused=5)
    browser.wait(lambda: browser.text("#verdict") == "2 requests refused in the last minute", 10, "new refusals")


def test_what_the_load_needs_is_shown_where_the_router_tells_it(browser, router):
    router.answers["/page/fleet"] = fleet([worker("decode-0")])
    browser.open(f"{router.address}/")
    browser.wait(lambda: browser.text("#verdict") == "All well", 10, "the fleet")
    assert not browser.shown("#advice")
    router.answers["/page/fleet"] = fleet([worker("decode-0")], advice=advice("prompts come"))
    browser.wait(lambda: browser.shown("#advice"), 10, "the advice")
    text = browser.text("#advice")
    assert "5 workers needed · 4 ready · best split 3" in text and "not known yet" in text and "prompts come" in text, text


LINE_ENDS = """return [...document.querySelectorAll('.figure')].map((card) => {
    const style = getComputedStyle(card);
    const inner = card.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    const numbers = card.querySelector('.line').getAttribute('d').match(/[ML][-0-9.]+/g).map((each) => Number(each.slice(1)));
    return {figure: card.dataset.figure, inner, width: card.querySelector('svg').getBoundingClientRect().width,
            first: numbers[0], last: numbers.at(-1), runs: card.querySelector('.line').getAttribute('d').split('M').length - 1}; })"""
FIGURES = ["tokens_per_second", "ttft_ms", "prompt_tokens_per_second", "handoffs_per_second", "running"]


@pytest.mark.parametrize("width", [1280, browsers.NARROW])
def test_the_curves_of_the_last_15_minutes_are_as_wide_as_their_cards_when_the_page_opens(browser, router, width):
    show(browser, router, "fleet", width=width)
    browser.wait(lambda: "in 15 min" in browser.text(".figure .peak"), 10, "the history")
    lines = browser.js(LINE_ENDS)
    assert [line["figure"] for line in lines] == FIGURES
    for line in lines:
        assert line["width"] == pytest.approx(line["inner"], abs=1), line
        assert 0 <= line["first"] < 5 and line["last"] > 295 and line["runs"] == 1, line
    assert "179" in browser.text("[data-figure=ttft_ms] .value"), "the newest time to first token"


def test_a_curve_has_gaps_where_no_first_token_came_and_a_young_router_has_a_short_one(browser, router):
    router.answers["/page/history"] = history(4, ttft_ms=[None, 250, None, 90])
    show(browser, router, "fleet")
    browser.wait(lambda: browser.text("[data-figure=ttft_ms] .value") == "90.0 ms", 10, "the history")
    lines = {line["figure"]: line for line in browser.js(LINE_ENDS)}
    assert lines["ttft_ms"]["runs"] == 2
    assert 190 < lines["tokens_per_second"]["first"] < 210, "20 s of the line's first minute"


def test_a_router_without_a_first_token_says_so(browser, router):
    router.answers["/page/history"] = history(3, ttft_ms=[None] * 3)
    show(browser, router, "fleet")
    browser.wait(lambda: browser.text(".figure .peak") != "", 10, "the history")
    assert "no first token" in browser.text("[data-figure=ttft_ms]")


def test_a_cancelled_request_says_so_once_and_what_was_not_sent_is_told_only_where_something_was_not(browser, router):
    router.answers["/page/requests"] = {"requests": [listed("left", "cancelled", error="CANCELLED", finish=""),
                                                     listed("lost", "failed", error="UNAVAILABLE in stage decode")]}
    show_requests = f"{router.address}/#/requests"
    browser.open(show_requests)
    browser.wait(lambda: browser.shown("#requests tr"), 10, "requests")
    assert browser.text("#requests tr[data-request=left]").lower().count("cancelled") == 1
    assert "UNAVAILABLE" in browser.text("#requests tr[data-request=lost]")
    for saved, shown in ((10, True), (0, False)):
        whole = in_full("mine")
        whole["transfer"]["bytes_saved"] = saved
        router.answers["/page/requests/mine"] = whole
        browser.open(f"{router.address}/#/requests/mine")
        browser.wait(lambda: browser.shown("#waterfall .lane"), 10, "the request")
        assert ("Not sent" in browser.text("main")) == shown


def test_a_router_that_is_gone_has_a_banner_until_it_is_back(browser, router):
    show(browser, router, "fleet")
    assert not browser.shown("#banner")
    told = router.answers["/page/fleet"]
    router.answers["/page/fleet"] = (500, {"error": {"message": "broken"}})
    browser.wait(lambda: browser.shown("#banner"), 10, "the banner")
    assert "error (500)" in browser.text("#banner")
    assert browser.shown("#workers tr"), "what it said last stays"
    router.answers["/page/fleet"] = told
    browser.wait(lambda: not browser.shown("#banner"), 10, "no banner")
    browser.wait(lambda: "answers again" in browser.text("#announcer"), 10, "the announcement")


def test_one_who_may_not_look_is_told_what_is_needed(browser, router):
    router.answers["/page/fleet"] = (403, {"error": {"message": "the page is for operators", "type": "permission_error"}})
    browser.open(f"{router.address}/")
    browser.wait(lambda: browser.shown("#banner"), 10, "the banner")
    assert "the page is for operators (403)" in browser.text("#banner") and "operator's key" in browser.text("#banner")


def test_of_many_holders_of_a_prefix_some_are_named_and_the_others_counted(browser, router):
    prefixes = router.answers["/page/kv"]["prefixes"]
    prefixes[0].update(holders=40, workers=["decode-0", "decode-1"])
    show(browser, router, "kv")
    rows = browser.js("return [...document.querySelectorAll('#prefixes tr')].map((row) => row.lastElementChild.textContent)")
    assert rows == ["decode-0, decode-1 and 38 more"] + ["decode-0"] * 4


def test_nothing_yet_is_said_in_words(browser, router):
    router.answers.update({"/page/fleet": fleet([]), "/page/requests": {"requests": []}, "/page/kv": {"workers": [], "prefixes": []}})
    for view, words in (("fleet", "No worker yet"), ("requests", "No request yet"), ("kv", "No worker has told"),
                        ("requests/unheard-of", "does not know this request")):
        browser.open(f"{router.address}/#/{view}")
        browser.wait(lambda: browser.js("return document.querySelector('main').innerText").count(words) == 1, 10, words)


def test_thousands_of_events_are_bounded_and_the_newest_is_first(browser, router):
    router.answers["/page/fleet"] = fleet([worker("decode-0")], [event(number) for number in range(5000)])
    browser.open(f"{router.address}/")
    browser.wait(lambda: browser.shown("#events li"), 10, "events")
    assert browser.js("return document.querySelectorAll('#events li').length") == 200
    assert "request-4999" in browser.text("#events li:first-child")


def test_what_the_router_tells_stays_text(browser, router):
    router.answers["/page/fleet"] = fleet([worker(MARKUP, "stuck", problem=MARKUP)], [event(1, text=MARKUP, request=MARKUP)], model=MARKUP)
    router.answers["/page/requests"] = {"requests": [listed(MARKUP, "failed", error=MARKUP)]}
    for view, selector in (("fleet", "#events li"), ("requests", "#requests tr")):
        browser.open(f"{router.address}/#/{view}")
        browser.wait(lambda: browser.shown(selector), 10, view)
        assert MARKUP in browser.text("main")
        assert browser.js("return document.querySelectorAll('main img').length") == 0
        assert "broken" not in browser.driver.title


def test_a_state_that_changes_while_the_page_is_open_stands_out_and_keeps_its_place(browser, router):
    router.answers["/page/fleet"] = fleet([worker("decode-0"), worker("decode-1")])
    browser.look()
    browser.open(f"{router.address}/")
    row = "#workers tr[data-worker='decode-1']"
    browser.wait(lambda: browser.shown(row), 10, "the worker")
    assert "since" not in browser.text(row)
    router.answers["/page/fleet"] = fleet([worker("decode-0"), worker("decode-1", "stuck", problem="no step for 10 s")])
    browser.wait(lambda: browser.shown(f"{row}.news"), 10, "the news")
    assert "stuck" in browser.text(row) and "no step for 10 s · since" in browser.text(row)
    browser.wait(lambda: "decode-1 is stuck" in browser.text("#announcer"), 10, "the announcement")


def test_the_policy_has_nothing_to_forbid(browser, router):
    browser.log()
    for view in VIEWS:
        show(browser, router, view)
    assert browser.log() == []
