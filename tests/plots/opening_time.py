# SPDX-License-Identifier: Apache-2.0
"""How long a page takes to open in Chromium, from a file: python3 tests/plots/opening_time.py PAGE.html... prints
medians of several openings. Interactive: the words can be read, scrolled and clicked (domInteractive of the browser's
own navigation timing); drawn: the first chart is there. A benchmark, not a test."""

import os
import statistics
import sys

from browser_test import open_browser

OPENINGS = 9
TIMES = """
    const done = arguments[0];
    const {domInteractive, loadEventEnd} = performance.getEntriesByType('navigation')[0];
    const paint = performance.getEntriesByName('first-contentful-paint')[0];
    const look = () => {
      if (!document.querySelector('.figure') || document.querySelector('.figure .main-svg'))
        done([paint ? paint.startTime : NaN, domInteractive, loadEventEnd, performance.now()]);
      else requestAnimationFrame(look);
    };
    document.querySelector('.figure')?.scrollIntoView();
    look();
"""


def main(pages):
    if not pages:
        sys.exit("opening_time: which page?")
    driver = open_browser()
    try:
        driver.set_window_size(1200, 900)
        for page in pages:
            times = []
            for _ in range(OPENINGS):
                driver.get("about:blank")
                driver.get("file://" + os.path.abspath(page))
                times.append(driver.execute_async_script(TIMES))
            middle = [f"{statistics.median(column) / 1e3:.2f} s" for column in zip(*times)]
            words = ("first words painted", "interactive", "loaded", "first chart drawn")
            size = f"{os.path.getsize(page) / 1e6:.1f} MB"
            print(f"{page} ({size}): {', '.join(f'{word} {time}' for word, time in zip(words, middle))}")
    finally:
        driver.quit()


if __name__ == "__main__":
    main(sys.argv[1:])
