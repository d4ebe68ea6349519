"""A real browser, by WebDriver's REST interface and nothing else."""

import contextlib
import json
import re
import shutil
import subprocess
import urllib.error
import urllib.request

CHROMIUM, DRIVER = "chromium", "chromedriver"
FLAGS = [
  "--headless=new",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-dev-shm-usage",
  "--hide-scrollbars",
  "--host-resolver-rules=MAP * ~NOTFOUND",  # no network
]
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the standard's name for one


def missing():
  """Which of the programs is not installed, or None."""
  for name in (CHROMIUM, DRIVER):
    if shutil.which(name) is None:
      return name
  return None


class Browser:
  """A session of a browser: use `browser()`."""

  def __init__(self, address, session):
    self._address, self._session = address, session

  def call(self, method, path, body=None):
    return call(self._address, method, f"{self._session}/{path}", body)

  def cdp(self, command, **parameters):
    """One command of Chromium's own protocol."""
    body = {"cmd": command, "params": parameters}
    return self.call("POST", "goog/cdp/execute", body)

  def open(self, url):
    self.call("POST", "url", {"url": url})

  def run(self, script, *arguments):
    """What a script returns."""
    body = {"script": script, "args": arguments}
    return self.call("POST", "execute/sync", body)

  def find(self, css):
    """All elements of a selector."""
    body = {"using": "css selector", "value": css}
    return [found[ELEMENT] for found in self.call("POST", "elements", body)]

  def texts(self, css):
    script = "return [...document.querySelectorAll(arguments[0])]"
    return self.run(f"{script}.map((one) => one.textContent)", css)

  def click(self, css, place=0):
    self.call("POST", f"element/{self.find(css)[place]}/click", {})

  def resize(self, width, height, *, mobile=False):
    self.cdp(
      "Emulation.setDeviceMetricsOverride",
      width=width,
      height=height,
      deviceScaleFactor=2 if mobile else 1,
      mobile=mobile,
    )

  def errors(self):
    """What the console has complained about since it was asked last."""
    lines = self.call("POST", "se/log", {"type": "browser"})
    return [line["message"] for line in lines]


@contextlib.contextmanager
def browser():
  """A browser while it is needed."""
  command = [DRIVER, "--port=0"]
  with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as driver:
    try:
      for line in driver.stdout:
        if found := re.search(r"started successfully on port (\d+)", line):
          break
      address = f"http://127.0.0.1:{found[1]}"
      options = {
        "goog:chromeOptions": {"binary": shutil.which(CHROMIUM), "args": FLAGS},
        "goog:loggingPrefs": {"browser": "ALL"},
      }
      body = {"capabilities": {"alwaysMatch": options}}
      made = call(address, "POST", "session", body)
      session = f"session/{made['sessionId']}"
      try:
        yield Browser(address, session)
      finally:
        call(address, "DELETE", session)
    finally:
      driver.terminate()


def call(address, method, path, body=None):
  """One request; its answer's value."""
  request = urllib.request.Request(
    f"{address}/{path}",
    method=method,
    data=None if body is None else json.dumps(body).encode(),
  )
  direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
  try:
    with direct.open(request, timeout=60) as answer:
      return json.load(answer)["value"]
  except urllib.error.HTTPError as error:
    with error:
      message = json.load(error)["value"]["message"]
    raise RuntimeError(f"{method} {path}: {message}") from None
