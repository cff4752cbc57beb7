"""The page's chat before answers that are played to it: Markdown and what must not come of it, copies, and a reload."""
import json
import threading

import pytest

import browser as browsers
from played_router import PlayedRouter
from test_page_states import everything, listed

ANSWER = """\
# Title

A *soft*, **strong** and ~~wrong~~ word, `code` and [a link](https://example.com/a?b=1&c=2).
The next line &lt;stays&gt; a line.

1. first
   - inner
2. second

> quoted

| name | count |
|:-----|------:|
| a    | 1     |
| b    | 22    |

```make
all:
\techo "<b>" && true
```

After the code.
"""
# What each would do if it is not kept from it.
HOSTILE = [
    "<script>document.title='broken'</script>",
    "<img src=x onerror=document.title='broken'>",
    "<iframe src=javascript:alert(1)></iframe>\n\ntext",
    "<details open ontoggle=document.title='broken'>\n<summary>x</summary>\n</details>",
    "![picture](http://127.0.0.1:9/x.png)",
    "![](/page/app.js)",
    "[![badge](http://127.0.0.1:9/b.svg)](javascript:document.title='broken')",
    "[x](javascript:document.title='broken')",
    "[x](JaVaScRiPt:document.title='broken')",
    "[x](&#106;avascript:document.title='broken')",
    "[x](\\javascript:document.title='broken')",
    "[x](<java\nscript:document.title='broken'>)",
    "[x](data:text/html,<script>alert(1)</script>)",
    "[x](vbscript:broken)",
    "[x](//127.0.0.1:9/relative)",
    "[x](/page/fleet)",
    "[x](#/kv)",
    "[x][r]\n\n[r]: javascript:document.title='broken'",
    "<javascript:document.title='broken'>",
    "<a href=\"javascript:document.title='broken'\">x</a>",
    "| <img src=x onerror=document.title='broken'> |\n|---|\n| [x](javascript:1) |",
    "- <img src=x onerror=document.title='broken'>\n- [x](file:///etc/passwd)",
    "```html\" onclick=\"document.title='broken'\n<b>\n```",
]
LENGTH = 100000
# Texts that take a careless parser quadratic time, or more.
COSTLY = {
    "brackets": "[" * LENGTH,
    "brackets that close": "[" * (LENGTH // 2) + "]" * (LENGTH // 2),
    "links": "[a](" * (LENGTH // 4),
    "pictures": "![" * (LENGTH // 2),
    "quotes": ">" * LENGTH,
    "nested quotes": "\n".join("> " * depth + "a" for depth in range(1, 300)),
    "nested lists": "\n".join("  " * depth + "- a" for depth in range(300)),
    "a list in a list": "- " * (LENGTH // 2),
    "emphasis": "*a_ " * (LENGTH // 4),
    "stars": "*" * LENGTH,
    "stars and words": "**a" * (LENGTH // 3),
    "backticks": "".join("`" * (number % 300 + 1) + " " for number in range(640)),
    "tags": "<a " * (LENGTH // 3),
    "entities": "&" * LENGTH,
    "a wide table": "|a" * 10000 + "|\n" + "|-" * 10000 + "|\n" + "|x\n" * 10000,
    "many rules": "---\n" * (LENGTH // 4),
    "definitions": "".join(f"[{number}]: http://a\n" for number in range(5000)),
    "too long": "word " * 60000,
}


@pytest.fixture(scope="module")
def browser():
    if (why := browsers.lacking()) is not None:
        pytest.skip(why)
    opened = browsers.Browser()
    opened.command("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
    yield opened
    opened.close()


@pytest.fixture
def router():
    with PlayedRouter(everything()) as played:
        yield played


@pytest.fixture
def page(browser, router):
    browser.look()
    browser.open(f"{router.address}/#/try")
    browser.wait(lambda: browser.shown("#draft") and browser.text("#pulse"), 30, "the chat is shown")
    browser.log()
    yield browser
    assert browser.log() == []


def ask(browser, router, *said, question="Question"):
    """Asks, and returns when the whole answer is shown."""
    router.said = list(said)
    begin(browser, question)
    browser.wait(lambda: browser.js("return document.querySelector('.turn:last-child .answer')?.ariaBusy") == "false", 20, "the answer")


def begin(browser, question="Question"):
    before = browser.js("return document.querySelectorAll('.turn').length")
    browser.type("#draft", question + "\n")
    browser.wait(lambda: browser.js("return document.querySelectorAll('.turn').length") > before, 30, "the turn")


def markup(browser):
    """The last answer's tree as text, without its attributes and its buttons."""
    return browser.js("""const copy = document.querySelector('.turn:last-child .text').cloneNode(true);
        for (const each of copy.querySelectorAll('.code-head')) each.remove();
        for (const each of copy.querySelectorAll('div')) each.replaceWith(...each.childNodes);
        for (const each of copy.querySelectorAll('*')) {
          for (const name of each.getAttributeNames()) if (!['href', 'start'].includes(name)) each.removeAttribute(name);
        }
        return copy.innerHTML;""")


def test_an_answer_is_shown_as_markdown(page, router):
    ask(page, router, ANSWER)
    assert markup(page) == (
        "<h2>Title</h2>"
        "<p>A <em>soft</em>, <strong>strong</strong> and <del>wrong</del> word, <code>code</code> and "
        '<a href="https://example.com/a?b=1&amp;c=2">a link</a>.\nThe next line &lt;stays&gt; a line.</p>'
        '<ol start="1"><li>first<ul><li>inner</li></ul></li><li>second</li></ol>'
        "<blockquote><p>quoted</p></blockquote>"
        "<table><thead><tr><th>name</th><th>count</th></tr></thead>"
        "<tbody><tr><td>a</td><td>1</td></tr><tr><td>b</td><td>22</td></tr></tbody></table>"
        '<pre><code>all:\n\techo "&lt;b&gt;" &amp;&amp; true</code></pre>'
        "<p>After the code.</p>")
    assert page.js("return document.querySelector('.markdown td[data-align=right]').textContent") == "1"


def test_a_streamed_answer_ends_as_one_that_came_whole(page, router):
    ask(page, router, ANSWER)
    whole = markup(page)
    ask(page, router, *ANSWER)  # a character at a time
    assert markup(page) == whole


def test_what_stands_above_stays_while_an_answer_grows(page, router):
    more, end = threading.Event(), threading.Event()
    router.said = ["First.\n\n```c\nint a;\n", more, "int b;\n", end, "```\n\nLast."]
    begin(page)
    page.wait(lambda: "int a;" in (page.text(".text pre") or ""), 30, "the code")
    page.js("document.querySelector('.text p').mark = 1; document.querySelector('.text pre').mark = 2;"
            "document.querySelector('.code-head button').focus()")
    more.set()
    page.wait(lambda: "int b;" in page.text(".text pre"), 30, "more code")
    assert page.js("return document.activeElement.ariaLabel") == "Copy the code"
    end.set()
    page.wait(lambda: page.js("return document.querySelector('.answer').ariaBusy") == "false", 30, "the end")
    assert page.js("return [document.querySelector('.text p').mark, document.querySelector('.text pre').mark]") == [1, 2]


@pytest.mark.parametrize("text", HOSTILE)
def test_html_stays_text_and_links_lead_to_the_web_only(page, router, text):
    ask(page, router, text)
    log = "document.getElementById('conversation')"
    assert page.js(f"return {log}.querySelectorAll('img, script, iframe, details[open], object, embed, style, form').length") == 0
    links = page.js(f"return [...{log}.querySelectorAll('.text a')].map((each) => [each.href, each.rel, each.target])")
    for href, rel, target in links:
        assert href.startswith(("http://", "https://")) and rel == "noopener noreferrer" and target == "_blank"
        assert text.startswith("!["), f"{href} is no link of {text}"
    attributes = page.js(f"return [...{log}.querySelectorAll('*')].flatMap((each) => each.getAttributeNames())")
    assert not [name for name in attributes if name.startswith("on") or name in ("src", "style")]
    assert "broken" not in page.driver.title


def test_a_picture_is_a_link_with_its_description(page, router):
    ask(page, router, "![a cat](https://example.com/cat.png) and ![nothing](cat.png)")
    assert markup(page) == '<p><a href="https://example.com/cat.png">a cat</a> and nothing</p>'


@pytest.mark.parametrize("text", COSTLY.values(), ids=COSTLY)
def test_no_answer_freezes_the_page(page, router, text):
    # The longest pause between two turns of the page's own loop.
    page.js("""window.longest = 0; let last = performance.now();
        const beat = new MessageChannel();
        beat.port1.onmessage = () => { const now = performance.now(); window.longest = Math.max(window.longest, now - last); last = now;
                                       setTimeout(() => beat.port2.postMessage(0), 10); };
        beat.port2.postMessage(0);""")
    ask(page, router, text)
    assert page.js("return window.longest") < 5000  # ms; the frozen page stood still for 11 s
    assert page.js("return document.querySelector('.answer .text').childNodes.length") > 0


def test_what_is_too_much_for_markdown_is_shown_as_it_was_written(page, router):
    for name in ("quotes", "too long", "a wide table"):
        ask(page, router, COSTLY[name])
        assert page.js("return document.querySelector('.turn:last-child .text').textContent") == COSTLY[name], name


def test_an_answer_held_to_a_schema_stays_text(page, router):
    page.js("for (const each of document.querySelectorAll('details')) each.open = true")
    page.type("#schema", '{"type": "object"}')
    ask(page, router, '{"a": "*b* _c_"}')
    assert page.text(".answer .text") == '{"a": "*b* _c_"}'


def test_a_chat_survives_a_reload_and_goes_on(page, router):
    ask(page, router, ANSWER, question="First question")
    shown, about = markup(page), page.text(".answer .about")
    page.js("for (const each of document.querySelectorAll('details')) each.open = true")
    page.type("#system", "Be short.")
    page.reload()
    page.wait(lambda: page.js("return document.querySelector('.answer')?.ariaBusy") == "false", 30, "the chat of before")
    page.wait(lambda: page.text("#pulse"), 30, "the router")
    assert page.text(".said .text") == "First question" and markup(page) == shown and page.text(".answer .about") == about
    ask(page, router, "Second.", question="Second question")
    contents = [(each["role"], each["content"]) for each in router.asked[-1]["messages"]]
    assert contents == [("system", "Be short."), ("user", "First question"), ("assistant", ANSWER), ("user", "Second question")]


def test_an_answer_that_a_reload_breaks_off_is_kept_as_far_as_it_came(page, router):
    never = threading.Event()
    router.said = ["The beginning", never]
    begin(page)
    page.wait(lambda: page.text(".answer .text") == "The beginning", 30, "the beginning")
    page.reload()
    never.set()
    page.wait(lambda: page.text(".answer .text") == "The beginning", 30, "the beginning again")
    assert "Stopped." in page.text(".answer")
    page.wait(lambda: page.text("#pulse"), 30, "the router")
    ask(page, router, "Second.")
    assert [each["content"] for each in router.asked[-1]["messages"]] == ["Question", "The beginning", "Question"]


def test_a_request_that_was_sent_from_here_is_known_by_its_question(page, router):
    ask(page, router, "Answer.", question="Why is the sky blue, " + "and why " * 20)
    sent = page.js("return document.querySelector('.about a').hash").rpartition("/")[2]
    router.answers["/page/requests"] = {"requests": [listed(sent), listed("another")]}
    page.js("location.hash = '#/requests'")
    page.wait(lambda: page.shown("#requests tr:nth-child(2)"), 30, "the requests")
    assert "“Why is the sky blue, and why" in page.text(f"#requests tr[data-request={sent}]")
    assert "“" not in page.text("#requests tr[data-request=another]")


def test_a_new_chat_forgets_the_old_one(page, router):
    ask(page, router, "Answer.")
    assert "Answer." in page.js("return JSON.stringify({...sessionStorage})")
    page.click("#clear")
    assert page.js("return sessionStorage.length") == 0
    page.reload()
    page.wait(lambda: page.shown("#draft") and page.text("#pulse"), 30, "the chat")
    assert not page.shown(".said") and not page.shown(".answer")


@pytest.mark.parametrize("refuse", [
    "Storage.prototype.setItem = () => { throw new DOMException('full', 'QuotaExceededError'); }",
    "Object.defineProperty(window, 'sessionStorage', {get() { throw new DOMException('off', 'SecurityError'); }})"])
def test_a_browser_that_stores_nothing_is_no_error_and_it_is_said(page, router, refuse):
    assert "until you choose New chat" in page.text("#keeping")
    page.js(refuse)
    ask(page, router, "Answer.")
    assert page.text(".answer .text") == "Answer." and not page.shown(".error")
    assert "is lost when the page is reloaded" in page.text("#keeping")


def test_a_chat_that_is_too_long_to_be_kept_goes_on(page, router):
    for _ in range(2):
        ask(page, router, "word " * 150000)
    assert page.js("return sessionStorage.length") == 0
    assert "is lost when the page is reloaded" in page.text("#keeping") and not page.shown(".error")


@pytest.mark.parametrize("kept", ["no JSON", "{}", "[]", "null", '{"version": 1}', '{"version": 1, "entries": [{}], "messages": 3}',
                                  '{"version": 99, "entries": []}', '{"version": 1, "entries": [{"answers": [{}]}], "messages": []}'])
def test_what_another_version_has_kept_is_no_error(page, router, kept):
    page.js(f"addEventListener('pagehide', () => sessionStorage.setItem('baton-chat', {json.dumps(kept)}))")
    page.reload()
    page.wait(lambda: page.shown("#draft") and page.text("#pulse"), 30, "the chat")
    ask(page, router, "Answer.")
    assert page.text(".turn:last-child .text") == "Answer."


@pytest.mark.parametrize("has_clipboard", [True, False], ids=["by the clipboard", "by a field"])
def test_messages_and_code_are_copied_by_the_keyboard_and_it_is_announced(page, router, has_clipboard):
    ask(page, router, ANSWER, question="A  question\\nof mine")
    if not has_clipboard:  # as from another machine without TLS
        page.js("navigator.clipboard.writeText = () => Promise.reject(new Error('not here'))")
    texts = {"Copy the message": "A  question\\nof mine", "Copy the code": 'all:\n\techo "<b>" && true', "Copy the answer": ANSWER}
    for label, text in texts.items():
        page.js(f"document.querySelector('[aria-label=\"{label}\"]').focus()")
        page.press("ENTER")
        page.wait(lambda: page.text(f'[aria-label="{label}"]') == "Copied", 10, label)
        page.driver.set_script_timeout(10)
        copied = page.driver.execute_async_script("navigator.clipboard.readText().then(arguments[0])")
        assert copied == text, label
        assert page.js("return document.activeElement.ariaLabel") == label
    page.wait(lambda: page.text("#announcer") == "Copied the answer.", 30, "the announcement")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everybody_can_read_and_reach_an_answer(page, router, scheme):
    page.look(scheme=scheme)
    ask(page, router, ANSWER)
    assert page.check("faintTexts") == []
    assert page.nameless() == []
    page.js("document.activeElement.blur(); window.scrollTo(0, 0)")
    count = page.js(f"{browsers.CHECKS}\nreturn controls().length")
    reached = set()
    for _ in range(count + 2):
        page.press("TAB")
        found = page.check("focused")
        assert found["index"] < 0 or found["marked"], f"control {found['index']} does not show its focus"
        reached.add(found["index"])
    assert set(range(count)) <= reached


def test_an_answer_is_no_wider_than_a_narrow_window(page, router):
    page.look(width=browsers.NARROW, height=780)
    wide = "|" + "column|" * 20 + "\n|" + "-|" * 20 + "\n|" + "value|" * 20
    ask(page, router, f"{ANSWER}\n\n{wide}\n\n```\n{'code ' * 100}\n```\n\n{'word' * 200}")
    assert page.check("tooWide") == []
