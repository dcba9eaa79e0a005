// The conversation: what was said, kept in this browser, and the answer that is being written.

const STORE = "sluice.talk";

const storage = {
  load(name, otherwise) {
    try { return JSON.parse(localStorage.getItem(name)) ?? otherwise; } catch { return otherwise; }
  },
  save(name, value) {
    try { localStorage.setItem(name, JSON.stringify(value)); } catch { /* full or forbidden: it lives as long as the page */ }
  },
};

/// For people who hear the page: whole blocks, not single tokens.
function tell(text) { byId("told").append(make("p", {}, text)); }

/// The box of one answer.
class AnswerBox {
  constructor(chat) {
    this.chat = chat;
    this.thoughtBox = make("div", { className: "thought" });
    this.summary = make("summary", {}, "Reasoning");
    this.fold = make("details", { hidden: true }, this.summary, this.thoughtBox);
    this.textBox = make("div", { className: "text" });
    this.pending = make("p", { className: "pending", hidden: true });
    this.element = make("div", { className: "turn answer" }, this.fold, this.textBox, this.pending);
    this.thought = new Growing(this.thoughtBox);
    this.text = new Growing(this.textBox, tell);
  }
  addThought(text) { this.fold.hidden = false; this.thought.add(text); }
  addText(text) { this.text.add(text); }
  wait(text) { this.pending.hidden = !text; setText(this.pending, text || ""); }
  /// Nothing more comes. `answer` has what there is to say about it.
  finish(answer) {
    this.wait("");
    this.thought.finish();
    this.text.finish();
    if (answer.reasoningTokens) setText(this.summary, `Reasoning, ${counted(answer.reasoningTokens, "token")}`);
    if (answer.error) this.element.append(make("p", { className: "error" }, answer.error));
    const foot = make("div", { className: "foot" });
    if (answer.content) foot.append(this.copyButton(answer.content));
    if (answer.note) foot.append(make("span", {}, answer.note));
    const again = make("button", { type: "button", className: "again" }, answer.error || answer.stopped ? "Try again" : "Answer anew");
    again.onclick = () => this.chat.again();
    foot.append(again);
    this.element.append(foot);
  }
  copyButton(text) {
    const button = make("button", { type: "button" }, "Copy");
    button.onclick = async () => {
      try {
        await navigator.clipboard.writeText(text);
        button.textContent = "Copied";
      } catch { button.textContent = "Not allowed here"; }
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    };
    return button;
  }
}

class Chat {
  constructor(settings) {
    this.settings = settings;
    this.turns = storage.load(STORE, []);
    this.talk = byId("talk");
    this.running = null;   // the answer that is being written: { id, answer, box, abort, began }
    this.follows = true;   // the end is in view, and stays there
    this.placed = 0;       // where the talk was scrolled to when it was last followed
    this.onChange = () => {};
    this.talk.onscroll = () => this.look();
    new ResizeObserver(() => this.follow()).observe(this.talk);
    byId("newest").onclick = () => { this.toEnd(); byId("text").focus(); };
    // A reload in the middle of an answer: what came is there, the rest was not waited for.
    for (const turn of this.turns) if (turn.role === "assistant" && turn.open) Object.assign(turn, { open: false, stopped: true, note: "Interrupted" });
    for (const turn of this.turns) this.show(turn);
    byId("told").replaceChildren();
    this.follow();
  }
  save() { storage.save(STORE, this.turns); }
  /// The page goes: that its requests break is not the server's fault.
  leave() {
    this.leaves = true;
    this.save();
  }

  look() {
    this.follows = this.talk.scrollHeight - this.talk.scrollTop - this.talk.clientHeight < 48;
    byId("newest").hidden = this.follows;
  }
  follow() {
    // Who has scrolled up since the last time reads above. The event that says so may still be on its way.
    if (this.talk.scrollTop < this.placed - 1) this.look();
    if (this.follows) this.talk.scrollTop = this.talk.scrollHeight;
    this.placed = this.talk.scrollTop;
    byId("newest").hidden = this.follows;
  }
  toEnd() {
    this.follows = true;
    this.placed = 0;
    this.follow();
  }

  show(turn) {
    byId("hello").hidden = true;
    if (turn.role === "user") {
      this.talk.append(make("div", { className: "turn user" }, turn.content));
      return null;
    }
    const box = new AnswerBox(this);
    this.talk.append(box.element);
    if (turn.open) return box;
    if (turn.reasoning_content) box.addThought(turn.reasoning_content);
    box.addText(turn.content);
    box.finish(turn);
    return box;
  }

  /// What the model is told: questions without an answer, and answers without a word, are not.
  messages() {
    const system = this.settings.system.trim();
    const messages = system ? [{ role: "system", content: system }] : [];
    this.turns.forEach((turn, index) => {
      const answer = this.turns[index + 1], isLast = index + 2 >= this.turns.length;
      if (turn.role !== "user") return;
      messages.push({ role: "user", content: turn.content });
      if (!answer || (isLast && answer.open)) return;
      if (!answer.content && !answer.reasoning_content) return void messages.pop();
      const message = { role: "assistant", content: answer.content };
      if (answer.reasoning_content) message.reasoning_content = answer.reasoning_content;
      messages.push(message);
    });
    return messages;
  }

  send(text) {
    this.turns.push({ role: "user", content: text });
    this.show(this.turns.at(-1));
    return this.answer();
  }
  /// The last question once more.
  again() {
    if (this.running || this.turns.length < 2) return;
    this.turns.pop();
    this.talk.lastElementChild.remove();
    return this.answer();
  }
  stop() { if (this.running) this.running.abort.abort(); }
  clear() {
    const running = this.running;
    this.stop();
    this.running = null;
    if (running) running.dropped = true;
    this.turns = [];
    this.save();
    this.talk.replaceChildren(byId("hello"));
    this.placed = 0;
    byId("hello").hidden = false;
    byId("told").replaceChildren();
    this.onChange();
  }

  async answer() {
    const answer = { role: "assistant", content: "", open: true };
    this.turns.push(answer);
    const box = this.show(answer);
    const run = this.running = { id: null, answer, box, abort: new AbortController(), began: performance.now(), place: null };
    byId("told").replaceChildren();
    box.wait("Waiting for the model");
    this.toEnd();
    this.save();
    this.onChange();
    try {
      await this.read(run);
    } catch (error) {
      if (error.name === "AbortError") Object.assign(answer, { stopped: true, note: "Stopped" });
      else answer.error = this.explain(error);
    }
    this.end(run);
  }

  async read(run) {
    const body = JSON.stringify({ model: this.settings.model, messages: this.messages(), stream: true,
      stream_options: { include_usage: true }, ...this.settings.options() });
    const response = await request("v1/chat/completions", { method: "POST", signal: run.abort.signal,
      headers: { "Content-Type": "application/json" }, body });
    let saved = performance.now();
    for await (const { place, data } of events(response)) {
      if (place) { this.wait(run, place); continue; }
      this.take(run, data);
      this.follow();
      if (performance.now() - saved < 1000) continue;
      saved = performance.now();
      this.save();
    }
  }

  /// One event of the stream.
  take(run, data) {
    const { answer, box } = run;
    if (data.error) throw new RequestError(data.error.message, 500);
    run.id = data.id;
    if (data.usage) {
      answer.tokens = data.usage.completion_tokens;
      answer.reasoningTokens = (data.usage.completion_tokens_details || {}).reasoning_tokens;
    }
    const choice = data.choices[0];
    if (!choice) return;
    if (choice.finish_reason === "length") answer.cut = true;
    const { reasoning_content: thought, content } = choice.delta;
    if (!thought && !content) return;
    if (!run.first) box.wait(thought ? "Thinking" : "Writing");
    run.first ??= performance.now();
    if (thought) { answer.reasoning_content = (answer.reasoning_content || "") + thought; box.addThought(thought); }
    if (content) { answer.content += content; box.addText(content); }
  }

  wait(run, place) {
    const time = place.seconds === null ? "" : `, about ${formatTime(Math.max(1, place.seconds))} until its turn`;
    const text = place.before === 1 ? `Next in the queue${time}` : `Number ${place.before} in the queue${time}`;
    if (!run.place || run.place.before !== place.before) tell(text);
    run.place = place;
    run.box.wait(text);
  }

  explain(error) {
    if (error.status !== 429) return error.message;
    const time = error.retryAfter ? ` Try again in about ${formatTime(+error.retryAfter)}.` : "";
    return error.position ? `The queue is full: your request would have been number ${error.position}.${time}` : error.message;
  }

  end(run) {
    if (run.dropped || this.leaves) return;
    const { answer, box } = run;
    answer.open = false;
    const seconds = (performance.now() - run.began) / 1000, writing = (performance.now() - run.first) / 1000;
    if (!answer.error && !answer.stopped) {
      const speed = answer.tokens > 1 && writing > 0 ? `, ${formatSpeed((answer.tokens - 1) / writing)} a second` : "";
      answer.note = `${counted(answer.tokens || 0, "token")} in ${formatTime(seconds)}${speed}`;
      if (answer.cut) answer.note += "; cut off at the longest length";
    }
    box.finish(answer);
    tell(answer.error || answer.note);
    this.running = null;
    this.save();
    this.follow();
    this.onChange();
  }

  /// What the status of the engine says about the answer that is awaited.
  watch(status) {
    const run = this.running, now = status.request;
    if (!run || !now || now.id !== run.id || status.phase === "idle") return;
    const left = word => now.seconds_left === null ? "" : `, ${word} ${formatTime(now.seconds_left)} left`;
    if (status.phase === "prefill") {
      run.box.wait(`Reading ${counted(now.prompt_tokens, "token")}, layer ${now.layer + 1} of ${status.layers}${left("about")}`);
    } else {
      run.box.wait(`${run.answer.content ? "Writing" : "Thinking"}, ${counted(now.tokens, "token")} so far${left("at most")}`);
    }
    this.follow();
  }
}
