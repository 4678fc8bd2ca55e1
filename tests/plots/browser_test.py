# SPDX-License-Identifier: Apache-2.0
"""The page in a real browser: Debian's Chromium without a window, steered by Selenium. RINGMARK_SCREENSHOTS=FOLDER keeps
pictures of it in light, in dark, on a phone and on paper."""

import base64
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import made_up

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By
except ImportError:
    webdriver = None

DRIVER = shutil.which("chromedriver")
PATIENCE = 60  # seconds, on a machine that has much else to do
ALARM = "window.alarm=1"
HOSTILE = f"</script><script>{ALARM}</script><img src=x onerror={ALARM}><a href='javascript:{ALARM}'>%{{x}}</a>\"'"
MARKS = ".scatterlayer .trace path, .barlayer .point path, .heatmaplayer image, .hm image"


def hostile():
    """The worst words everywhere a file can have words."""
    result = made_up.allreduce(
        HOSTILE, point={"dtype": HOSTILE, "device": HOSTILE}, flags=[HOSTILE], command=[HOSTILE, HOSTILE]
    )
    train = made_up.train(2, point={"model": HOSTILE, "strategy": HOSTILE}, phases={HOSTILE: 1}, command=[HOSTILE])
    train["timeline"] = [made_up.span(HOSTILE, HOSTILE, HOSTILE, 0, 1)]
    simulated = made_up.fabrics(0.3)
    for one in simulated:
        one["point"]["topology"] = HOSTILE
        for link in one.get("links", []):
            link.update({"to": HOSTILE, "kind": HOSTILE})
    other = made_up.allreduce("ring", point={"dtype": HOSTILE, "device": HOSTILE}, status="failed", reason=HOSTILE)
    more = [made_up.allreduce(HOSTILE + str(n), point={"dtype": HOSTILE, "device": HOSTILE}) for n in range(80)]
    layers = {**made_up.model(), "layers": [{"name": HOSTILE, "forward_seconds": 1, "parameters": HOSTILE}]}
    results = [result, other, train, made_up.train(1, point={"model": HOSTILE}), made_up.link(HOSTILE, "b"), layers]
    results += [made_up.validate(topology=HOSTILE), made_up.collective(HOSTILE, HOSTILE)]
    results[-2]["point"]["source"] = results[-2]["published"]["note"] = results[-2]["published"]["id"] = HOSTILE
    results += [made_up.link(HOSTILE, HOSTILE), made_up.link("b", HOSTILE), *simulated, *more]
    return made_up.run(results, command=[HOSTILE], machine={HOSTILE: {HOSTILE: HOSTILE}}, started=HOSTILE)


def open_browser():
    options = webdriver.ChromeOptions()
    # As root there is no sandbox; containers have a small /dev/shm.
    for word in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(service=Service(DRIVER), options=options)
    driver.set_page_load_timeout(3 * PATIENCE)
    driver.set_script_timeout(3 * PATIENCE)
    return driver


@unittest.skipIf(webdriver is None or DRIVER is None, "needs chromium, chromium-driver and python3-selenium")
class Browser(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.pages = {}
        for name, content in (("whole", made_up.whole()), ("hostile", hostile()), ("many", made_up.many())):
            results = os.path.join(folder.name, f"{name}.json")
            with open(results, "w", encoding="utf-8") as file:
                json.dump(content, file)
            cls.pages[name] = os.path.join(folder.name, f"{name}.html")
            command = [sys.executable, "-m", "plots.report", results, "-o", cls.pages[name]]
            subprocess.run(command, cwd=made_up.ROOT, check=True)
        cls.driver = open_browser()
        cls.addClassCleanup(cls.driver.quit)

    def setUp(self):
        self.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        self.dark(False)
        self.driver.set_window_size(1200, 900)
        self.driver.get_log("browser")

    def dark(self, wanted):
        feature = {"name": "prefers-color-scheme", "value": "dark" if wanted else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})

    def run_script(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def wait(self, script, *arguments):
        """Until the script gives something; that."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            found = self.run_script(script, *arguments)
            if found:
                return found
            time.sleep(0.05)
        self.fail(f"did not happen in {PATIENCE} s: {script}; the browser says: {self.errors()}")

    def open(self, name):
        self.driver.get("file://" + self.pages[name])
        self.run_script("document.documentElement.style.scrollBehavior = 'auto'")

    def scroll(self):
        """Through the whole page, until every figure that is not hidden is drawn."""
        for place in self.driver.find_elements(By.CSS_SELECTOR, ".figure"):
            if place.is_displayed():
                # Anew each time: a figure above it that was drawn meanwhile may have pushed it out of the window.
                seek = "arguments[0].scrollIntoView({block: 'center'});"
                self.wait(seek + "return arguments[0].querySelector('.main-svg') !== null", place)

    def errors(self):
        return [line for line in self.driver.get_log("browser") if line["level"] in ("SEVERE", "WARNING")]

    def picture(self, name):
        folder = os.environ.get("RINGMARK_SCREENSHOTS")
        if folder:
            os.makedirs(folder, exist_ok=True)
            size = {"format": "png", "captureBeyondViewport": True}
            data = self.driver.execute_cdp_cmd("Page.captureScreenshot", size)["data"]
            with open(os.path.join(folder, name + ".png"), "wb") as file:
                file.write(base64.b64decode(data))

    def test_the_page_loads_without_errors_and_every_chart_has_its_marks(self):
        self.open("whole")
        self.scroll()
        self.assertEqual(self.errors(), [])
        places = [place for place in self.driver.find_elements(By.CSS_SELECTOR, ".figure") if place.is_displayed()]
        self.assertGreaterEqual(len(places), 12)
        for place in places:
            marks = self.run_script(f"return arguments[0].querySelectorAll('{MARKS}').length", place)
            self.assertGreater(marks, 0, place.get_attribute("data-figure"))
        self.picture("light")

    def test_nothing_is_fetched(self):
        self.open("whole")
        self.scroll()
        self.assertEqual(self.run_script("return performance.getEntriesByType('resource').map(one => one.name)"), [])

    def test_an_answer_leads_to_its_proof(self):
        self.open("whole")
        answer = self.driver.find_element(By.CSS_SELECTOR, ".answers a")
        place = answer.get_attribute("href").split("#")[1]
        answer.click()
        top = "return document.getElementById(arguments[0]).getBoundingClientRect().top"
        self.assertEqual(self.run_script("return location.hash"), "#" + place)
        self.wait(
            f"{top} >= -5 && document.getElementById(arguments[0]).getBoundingClientRect().top < innerHeight", place
        )

    def test_hovering_a_point_tells_its_numbers(self):
        self.open("whole")
        place = self.driver.find_element(By.CSS_SELECTOR, "#alone .figure")
        self.run_script("arguments[0].scrollIntoView({block: 'center'})", place)
        self.wait("return arguments[0].querySelector('.scatterlayer .point') !== null", place)
        point = self.run_script(
            "const box = arguments[0].querySelectorAll('.scatterlayer .point')[4].getBoundingClientRect();"
            "return [box.x + box.width / 2, box.y + box.height / 2]",
            place,
        )
        ActionChains(self.driver).w3c_actions.pointer_action.move_to_location(int(point[0]), int(point[1]))
        self.driver.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": point[0], "y": point[1]})
        text = self.wait(
            "const found = arguments[0].querySelector('.hovertext'); return found && found.textContent", place
        )
        self.assertRegex(text, r"ring.*256 KiB: \S+ GB/s \(\S+ GB/s to \S+ GB/s\)")

    def test_another_panel_is_drawn_when_it_is_chosen(self):
        self.open("whole")
        choice = self.driver.find_element(By.CSS_SELECTOR, "#alone .choice")
        self.run_script("arguments[0].scrollIntoView()", choice)
        menu = choice.find_element(By.TAG_NAME, "select")
        self.run_script("arguments[0].value = 1; arguments[0].dispatchEvent(new Event('change'))", menu)
        self.wait(
            "return arguments[0].querySelectorAll('.panel')[1].querySelector('.scatterlayer path') !== null", choice
        )
        self.assertTrue(self.run_script("return arguments[0].querySelectorAll('.panel')[0].hidden", choice))
        self.assertEqual(self.errors(), [])

    def test_the_timeline_zooms(self):
        self.open("whole")
        place = self.driver.find_element(By.CSS_SELECTOR, "#timeline .figure")
        self.run_script("arguments[0].scrollIntoView({block: 'center'})", place)
        box = self.wait(
            "const area = arguments[0].querySelector('.nsewdrag'); if (!area) return null;"
            "const box = area.getBoundingClientRect(); return [box.x, box.y, box.width, box.height]",
            place,
        )
        width = "const range = arguments[0].layout.xaxis.range; return range[1] - range[0]"
        before, y = self.run_script(width, place), box[1] + box[3] / 2
        for kind, share in (
            ("mouseMoved", 0.3),
            ("mousePressed", 0.3),
            ("mouseMoved", 0.4),
            ("mouseMoved", 0.6),
            ("mouseReleased", 0.6),
        ):
            mouse = {
                "type": kind,
                "x": box[0] + share * box[2],
                "y": y,
                "button": "left",
                "clickCount": 1,
                "buttons": 1,
            }
            self.driver.execute_cdp_cmd("Input.dispatchMouseEvent", mouse)
        self.wait(f"{width.replace('return', 'return 0.5 * arguments[1] >')}", place, before)

    def test_dark_is_dark_and_can_be_read(self):
        self.open("whole")
        self.scroll()
        colours = (
            "const style = getComputedStyle(document.body);"
            "const tick = document.querySelector('#alone .xtick text');"
            "return [style.backgroundColor, style.color, getComputedStyle(tick).fill].map(one => one.match(/\\d+/g).map(Number))"
        )
        bright = self.run_script(colours)
        self.dark(True)
        self.wait(f"const found = (() => {{{colours}}})(); return found[0][0] < 60 && found[2][0] > 180")
        for paper, *inks in (bright, self.run_script(colours)):
            for ink in inks:
                self.assertGreater(contrast(paper, ink), 7)
        self.picture("dark")
        self.assertEqual(self.errors(), [])

    def test_it_prints_on_white_with_its_charts(self):
        self.open("whole")
        self.dark(True)
        self.scroll()
        ink = "return getComputedStyle(document.querySelector('#alone .xtick text')).fill"
        dark = self.run_script(ink)
        self.run_script("dispatchEvent(new Event('beforeprint'))")
        self.assertNotEqual(self.run_script(ink), dark)
        self.assertEqual(self.run_script(ink), "rgb(29, 34, 40)")
        self.run_script("dispatchEvent(new Event('afterprint'))")
        self.assertEqual(self.run_script(ink), dark)
        pdf = base64.b64decode(self.driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"])
        self.assertTrue(pdf.startswith(b"%PDF"))
        self.assertGreater(len(re.findall(rb"/Type\s*/Page\b", pdf)), 3)
        folder = os.environ.get("RINGMARK_SCREENSHOTS")
        if folder:
            with open(os.path.join(folder, "paper.pdf"), "wb") as file:
                file.write(pdf)

    def test_a_phone_shows_it_without_scrolling_sideways(self):
        phone = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
        self.open("whole")
        self.scroll()
        self.assertLessEqual(self.run_script("return document.documentElement.scrollWidth"), 390)
        for place in self.driver.find_elements(By.CSS_SELECTOR, ".figure"):
            self.assertLessEqual(place.size["width"], 390)
        area = "const box = document.querySelector('#training .nsewdrag').getBoundingClientRect(); return box.width"
        self.assertGreater(self.run_script(area), 180)
        self.picture("phone")

    def test_a_command_is_copied(self):
        self.open("whole")
        rights = {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}
        self.driver.execute_cdp_cmd("Browser.grantPermissions", rights)
        command = self.driver.find_element(By.CSS_SELECTOR, "#commands .command")
        self.run_script("arguments[0].scrollIntoView({block: 'center'})", command)
        button = command.find_element(By.TAG_NAME, "button")
        button.click()
        self.wait("return arguments[0].textContent === 'Copied'", button)
        area = self.run_script(
            "const area = document.createElement('textarea'); document.body.append(area); area.focus(); return area"
        )
        self.driver.execute_cdp_cmd(
            "Input.dispatchKeyEvent",
            {"type": "keyDown", "key": "v", "code": "KeyV", "modifiers": 2, "commands": ["paste"]},
        )
        self.wait("return arguments[0].value === 'bench_train --model=lenet'", area)

    def test_ten_thousand_results_are_built_when_they_are_looked_at(self):
        self.assertLess(os.path.getsize(self.pages["many"]), 10e6)
        self.open("many")
        self.assertLess(self.run_script("return document.querySelectorAll('*').length"), 5000)
        self.assertLessEqual(self.run_script("return document.querySelectorAll('.js-plotly-plot').length"), 4)
        self.scroll()
        self.assertEqual(self.errors(), [])
        table = self.driver.find_element(By.CSS_SELECTOR, "#trust details")
        self.run_script("arguments[0].open = true; arguments[0].scrollIntoView()", table)
        count = "return arguments[0].querySelectorAll('tbody tr').length"
        self.wait(f"{count} === 100", table)
        self.assertIn("100 of 10000", table.text)
        self.run_script("[...arguments[0].querySelectorAll('button')].pop().click()", table)
        self.assertEqual(self.run_script(count, table), 200)
        table.find_element(By.TAG_NAME, "input").send_keys("nccl bf16 avg graph 16 MiB")
        self.wait(f"{count} < 100", table)
        lines = self.run_script(
            "return [...arguments[0].querySelectorAll('tbody tr')].map(one => one.textContent)", table
        )
        self.assertTrue(lines)
        for line in lines:
            self.assertRegex(line, "nccl.*bf16.*avg.*graph")

    def test_hostile_words_do_nothing(self):
        self.open("hostile")
        self.run_script("document.querySelectorAll('details').forEach(one => { one.open = true; })")
        self.scroll()
        for menu in self.driver.find_elements(By.TAG_NAME, "select"):
            for index in range(len(menu.find_elements(By.TAG_NAME, "option"))):
                change = "arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('change'))"
                self.run_script(change, menu, index)
                self.scroll()
        for place in self.driver.find_elements(By.CSS_SELECTOR, ".table"):
            self.run_script("arguments[0].scrollIntoView()", place)
            self.wait("return arguments[0].firstChild !== null", place)
        self.run_script(
            "for (const place of document.querySelectorAll('.js-plotly-plot'))"
            "  for (let curve = 0; curve < place.data.length; ++curve)"
            "    try { Plotly.Fx.hover(place, [{curveNumber: curve, pointNumber: 0}]); } catch {}"
        )
        time.sleep(0.5)  # what is loaded in vain says so a little later
        self.assertIsNone(self.run_script("return window.alarm"))
        self.assertEqual(self.run_script("return document.querySelectorAll('img, iframe, section a[href]').length"), 0)
        self.assertEqual(self.errors(), [])


def contrast(paper, ink):
    """The contrast ratio of two colours, of the Web Content Accessibility Guidelines 2.1; 7 is its strictest demand."""

    def luminance(colour):
        parts = [part / 255 for part in colour[:3]]
        parts = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    bright, dim = sorted((luminance(paper), luminance(ink)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


if __name__ == "__main__":
    unittest.main()
