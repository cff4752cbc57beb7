"""A Chromium without a window, for tests of the router's page. Where it or its driver is missing, `lacking()` says so."""
import importlib.util
import pathlib
import shutil
import time

CHECKS = (pathlib.Path(__file__).parent / "page_checks.js").read_text()
NARROW = 360  # pixels
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking",
         "--disable-component-update", "--no-first-run", "--force-color-profile=srgb")


def lacking():
    """Why there is no browser here; None: there is one."""
    if importlib.util.find_spec("selenium") is None:
        return "Debian's python3-selenium is not installed (scripts/install_deps.sh --thorough)"
    missing = [program for program in ("chromium", "chromedriver") if shutil.which(program) is None]
    return f"no {' and no '.join(missing)} here (scripts/install_deps.sh --thorough)" if missing else None


class Browser:
    """One window. All waits are for what the page shows, with a deadline."""

    def __init__(self):
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service

        options = webdriver.ChromeOptions()
        for flag in FLAGS:
            options.add_argument(flag)
        options.binary_location = shutil.which("chromium")
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(service=Service(shutil.which("chromedriver")), options=options)
        self.driver.set_script_timeout(30)

    def close(self):
        self.driver.quit()

    def command(self, name, **arguments):
        """A command of the DevTools protocol."""
        return self.driver.execute_cdp_cmd(name, arguments)

    def look(self, scheme="light", width=1280, height=900):
        """Colour scheme of the system, and the size of the window."""
        self.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme},
                                                             {"name": "prefers-reduced-motion", "value": "reduce"}])
        self.command("Emulation.setFocusEmulationEnabled", enabled=True)
        self.command("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width <= NARROW)

    def open(self, address):
        """Loads the page anew, also if only the part behind # differs, and without a chat that was kept."""
        self.driver.get("about:blank")
        added = self.command("Page.addScriptToEvaluateOnNewDocument", source="sessionStorage.clear()")
        self.driver.get(address)
        self.command("Page.removeScriptToEvaluateOnNewDocument", **added)

    def reload(self):
        self.driver.refresh()

    def js(self, body, *arguments):
        """What the function with this body returns."""
        return self.driver.execute_script(body, *arguments)

    def check(self, function, *arguments):
        """What a function of page_checks.js returns."""
        return self.js(f"{CHECKS}\nreturn {function}(...arguments);", *arguments)

    def find(self, selector):
        return self.driver.find_element("css selector", selector)

    def click(self, selector):
        self.find(selector).click()

    def type(self, selector, text):
        self.find(selector).send_keys(text)

    def text(self, selector):
        """The text of the first such element, as it is in the document; None if there is none."""
        return self.js("return document.querySelector(arguments[0])?.textContent ?? null", selector)

    def shown(self, selector):
        """Whether there is such an element and it is not hidden."""
        return self.js("return document.querySelector(arguments[0])?.checkVisibility() ?? false", selector)

    def wait(self, condition, timeout_s, what):
        """The first true value of condition(); fails after timeout_s, with the text of the page."""
        deadline = time.monotonic() + timeout_s
        while not (value := condition()):
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {timeout_s} s: {what}\n{self.text('body')}\n{self.log()}")
            time.sleep(0.02)
        return value

    def log(self):
        """What the console has said since the last call, violations of the policy included."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def press(self, key):
        """Presses a key, such as "TAB"."""
        from selenium.webdriver import ActionChains, Keys

        ActionChains(self.driver, duration=0).send_keys(getattr(Keys, key)).perform()

    def nameless(self):
        """Controls, and whatever else can have the focus, to which the browser's own tree of accessibility gives no name."""
        self.command("Accessibility.enable")
        found = []
        for node in self.command("Accessibility.getFullAXTree")["nodes"]:
            role = node.get("role", {}).get("value", "")
            properties = {each["name"]: each["value"].get("value") for each in node.get("properties", [])}
            if node.get("ignored") or role in ("RootWebArea", "main") or not properties.get("focusable"):
                continue
            if not node.get("name", {}).get("value", "").strip():
                found.append(node["role"]["value"])
        return found
