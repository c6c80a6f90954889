"""A live picture in a real browser with this process behind it, as a notebook's kernel would be."""

import base64
from pathlib import Path
from typing import Any

from luminal_lab.viz.live.alive import Live
from luminal_lab.viz.live.replies import Replies
from luminal_lab.viz.live.static import script

# A widget's model as Jupyter has them, whose kernel is a function of the page.
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>behind</title>
<meta name="color-scheme" content="light dark">
<body style="margin:0"><main><h1 style="position:absolute;left:-999px">behind</h1>
<div id="at"></div></main><script type="module">
const listeners = [];
const emit = (event, ...values) => {
  for (const [name, one] of [...listeners]) if (name === event) one(...values);
};
const bytes = (text) => new DataView(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
const state = await window.python("begin", {});
state.data = bytes(state.data);
const model = {
  get: (name) => state[name],
  set: (name, value) => { state[name] = value; emit("change:" + name); },
  save_changes: () => window.python("set", {place: state.place, selection: state.selection}),
  on: (event, one) => listeners.push([event, one]),
  off: (event, one) => {
    for (let at = listeners.length; at--;)
      if ((!event || listeners[at][0] === event) && (!one || listeners[at][1] === one))
        listeners.splice(at, 1);
  },
  send: async (question) => {
    const {reply, data} = await window.python("ask", question);
    if (data) { state.data = bytes(data); emit("change:data"); }
    emit("msg:custom", {...reply, reply: question.request});
  },
};
const code = Uint8Array.from(atob("CODE"), (c) => c.charCodeAt(0));
const address = URL.createObjectURL(new Blob([code], {type: "text/javascript"}));
const widget = (await import(address)).default();
widget.initialize({model});
widget.render({model, el: document.getElementById("at")});
</script>"""


class Behind:
    """A live picture in a page, with its answers."""

    def __init__(self, page: Any, live: Live, folder: Path) -> None:
        self.live = live
        self.changes = 0
        live._held.watchers.append(self._changed)
        self.replies = Replies(live._held, self._changed)
        page.expose_function("python", self._python)
        path = folder / "behind.html"
        path.write_text(PAGE.replace("CODE", base64.b64encode(script().encode()).decode()), "utf-8")
        page.goto(path.as_uri())
        page.wait_for_selector(".ll-root svg")

    def _changed(self) -> None:
        self.changes += 1

    def _python(self, what: str, given: dict[str, Any]) -> Any:
        if what == "set":
            self.live._goes({"new": given["place"]})
            self.live._selects({"new": given["selection"]})
            return None
        if what == "ask":
            before = self.changes
            reply = self.replies.answer(given)
            return {"reply": reply, "data": self._data() if self.changes != before else None}
        return {
            "what": self.live.what,
            "data": self._data(),
            "place": self.live._place,
            "selection": self.live._selection,
            "options": self.live._options,
            "picture": "",
        }

    def _data(self) -> str:
        return base64.b64encode(self.live.data).decode()
