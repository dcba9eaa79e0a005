// The parts put together.

const settings = {
  model: null,
  get system() { return byId("system").value; },
  /// What the request has beside the messages.
  options() {
    const options = {}, number = id => byId(id).value === "" ? undefined : Number(byId(id).value);
    if (byId("effort").value) options.reasoning_effort = byId("effort").value;
    if (number("temperature") !== undefined) options.temperature = number("temperature");
    if (number("longest") !== undefined) options.max_completion_tokens = number("longest");
    return options;
  },
};
const SETTINGS = ["system", "temperature", "longest", "effort"];

const chat = new Chat(settings), machine = new Machine(), map = new ExpertMap(byId("map"), byId("map-at"));

function setState(state, text) {
  byId("state").dataset.state = state;
  setText(byId("state-text"), text);
}

async function begin() {
  try {
    const found = (await getJson("v1/models")).data[0], efforts = found.reasoning_efforts || [];
    settings.model = found.id;
    setText(byId("model"), found.id);
    for (const name of document.querySelectorAll(".model-name")) setText(name, found.id);
    setText(byId("hello-facts"), `Prompt and answer may have ${counted(found.context_length, "token")} together.`);
    byId("effort").replaceChildren(...efforts.map(effort => new Option(effort, effort)));
    byId("effort-label").hidden = efforts.length === 0;
    if (efforts.includes(kept.effort)) byId("effort").value = kept.effort;
  } catch (error) {
    settings.model = null;
    setState("away", error.message);
    if (error.status === 401) { showSettings(true); byId("key").focus(); }
  }
}

/// Looks at the server, often while something happens and someone looks.
async function watch() {
  const isShown = !document.body.classList.contains("alone");
  let isBusy = false;
  try {
    if (!settings.model) await begin();
    if (settings.model) {
      const status = await getJson("v1/status");
      isBusy = status.phase !== "idle" || chat.running !== null;
      setState(isBusy ? "busy" : "ready", { idle: "Ready", prefill: "Reading", decode: "Writing" }[status.phase]);
      chat.watch(status);
      machine.show(status);
      if (isShown) {
        byId("map-section").hidden = status.experts.count === 0;
        map.take(await getExperts(map.now), status.experts.count);
      }
    }
  } catch (error) {
    if (error.status === 0) settings.model = null;  // it may come back with another one
    setState("away", error.message);
  }
  setTimeout(watch, document.hidden ? 5000 : isBusy && isShown ? 250 : 1000);
}

function showSettings(open) {
  byId("settings").hidden = !open;
  byId("show-settings").setAttribute("aria-expanded", String(open));
  chat.follow();
}
function showMachine(open) {
  document.body.classList.toggle("alone", !open);
  byId("show-machine").setAttribute("aria-expanded", String(open));
}
/// Stop is there while there is something to stop; what had the focus hands it on.
function showRunning() {
  const isRunning = chat.running !== null;
  if (!isRunning && document.activeElement === byId("stop")) byId("text").focus();
  byId("stop").hidden = !isRunning;
  byId("send").disabled = isRunning;
  setText(byId("keys"), isRunning ? "Escape stops" : "Enter sends, Shift+Enter begins a line");
  if (!isRunning && document.activeElement === document.body) byId("text").focus();
}

const kept = storage.load("sluice.settings", {});
for (const id of SETTINGS) {
  if (kept[id] !== undefined) byId(id).value = kept[id];
  byId(id).onchange = () => { kept[id] = byId(id).value; storage.save("sluice.settings", kept); };
}
byId("key").value = apiKey.value;
byId("key").onchange = () => { apiKey.value = byId("key").value.trim(); begin(); };

byId("ask").onsubmit = event => {
  event.preventDefault();
  const text = byId("text").value.trim();
  if (!text || chat.running || !settings.model) return;
  byId("text").value = "";
  chat.send(text);
};
byId("text").onkeydown = event => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  byId("ask").requestSubmit();
};
document.onkeydown = event => { if (event.key === "Escape") chat.stop(); };
byId("stop").onclick = () => chat.stop();
byId("clear").onclick = () => { chat.clear(); byId("text").focus(); };
byId("show-settings").onclick = () => showSettings(byId("settings").hidden);
byId("show-machine").onclick = () => showMachine(document.body.classList.contains("alone"));
chat.onChange = showRunning;
addEventListener("pagehide", () => chat.leave());
addEventListener("pageshow", event => { if (event.persisted) location.reload(); });

const narrow = matchMedia("(max-width: 1000px)");
narrow.onchange = () => showMachine(!narrow.matches);
showMachine(!narrow.matches);
watch();
