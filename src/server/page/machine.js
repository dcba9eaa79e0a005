// The machine, watched: what the engine does, how fast, and with which memory.

const WINDOW = 3;      // seconds that a rate is taken over
const HISTORY = 120;   // points of a curve

/// A curve of what was lately; `limit` is drawn as a line.
class Spark {
  constructor(canvas) {
    this.canvas = canvas;
    this.points = [];
  }
  add(value, limit) {
    this.points.push(value);
    if (this.points.length > HISTORY) this.points.shift();
    this.draw(limit);
  }
  draw(limit) {
    const { canvas, points } = this, width = canvas.clientWidth * devicePixelRatio, height = canvas.clientHeight * devicePixelRatio;
    if (!width) return;
    if (canvas.width !== Math.round(width)) Object.assign(canvas, { width, height });
    const context = canvas.getContext("2d"), style = getComputedStyle(canvas);
    const top = Math.max(limit || 0, ...points) * 1.08 || 1, y = value => height - 1 - (height - 2) * value / top;
    context.clearRect(0, 0, width, height);
    context.lineWidth = devicePixelRatio;
    context.strokeStyle = style.getPropertyValue("--soft");
    if (limit) {
      context.setLineDash([3 * devicePixelRatio, 3 * devicePixelRatio]);
      context.beginPath(); context.moveTo(0, y(limit)); context.lineTo(width, y(limit)); context.stroke();
      context.setLineDash([]);
    }
    const x = index => width * (index + HISTORY - points.length) / (HISTORY - 1);
    context.beginPath();
    points.forEach((value, index) => context.lineTo(x(index), y(value)));
    context.strokeStyle = style.getPropertyValue("--main");
    context.lineWidth = 1.5 * devicePixelRatio;
    context.stroke();
    context.lineTo(width, height); context.lineTo(x(0), height);
    context.globalAlpha = 0.12; context.fillStyle = context.strokeStyle; context.fill(); context.globalAlpha = 1;
  }
}

class Machine {
  constructor() {
    this.speedSpark = new Spark(byId("speed-spark"));
    this.driveSpark = new Spark(byId("drive-spark"));
    this.samples = [];
    this.tenants = new Map();
  }

  /// The growth of a counter over the last moments, per second.
  rate(of) {
    const first = this.samples[0], last = this.samples.at(-1), seconds = last.uptime_seconds - first.uptime_seconds;
    return seconds > 0 ? Math.max(0, of(last) - of(first)) / seconds : 0;
  }

  show(status) {
    if (this.samples.length && (this.samples[0].started !== status.started || this.samples.at(-1).uptime_seconds > status.uptime_seconds)) this.samples = [];
    this.samples.push(status);
    while (this.samples.length > 2 && status.uptime_seconds - this.samples[1].uptime_seconds >= WINDOW) this.samples.shift();
    this.showPhase(status);
    this.showSpeed(status);
    this.showDrives(status);
    this.showExperts(status);
    setText(byId("queue"), String(status.queued));
    setText(byId("queue-note"), `of ${status.queue_limit} that may; one runs at a time`);
    this.showMemory(status.memory);
  }

  showPhase(status) {
    const now = status.request, through = byId("through");
    through.value = now && status.phase !== "idle" ? (now.layer + 1) / status.layers : 0;
    if (!now || status.phase === "idle") return setText(byId("phase"), "Nothing to do");
    const left = now.seconds_left === null ? "" : status.phase === "prefill" ? `, about ${formatTime(now.seconds_left)} left` : `, at most ${formatTime(now.seconds_left)} left`;
    const what = status.phase === "prefill"
      ? `Reads a prompt: ${formatCount(now.prompt_tokens_done)} of ${counted(now.prompt_tokens, "token")}`
      : `Writes: ${counted(now.tokens, "token")} of at most ${formatCount(now.max_tokens)}`;
    setText(byId("phase"), `${what}, layer ${now.layer + 1} of ${status.layers}. ${formatTime(now.seconds)} so far${left}.`);
  }

  showSpeed(status) {
    const each = status.seconds_per_token, expected = status.predicted_seconds_per_token;
    const writes = status.phase === "decode" && each;
    setText(byId("speed"), each ? formatSpeed(1 / each) : "–");
    const range = expected ? `; ${formatTime(expected.low)} to ${formatTime(expected.high)} expected` : "";
    setText(byId("speed-note"), each ? `${formatTime(each)} each${writes ? "" : ", at the last answer"}${range}` : "no answer yet");
    this.speedSpark.add(writes ? 1 / each : 0);
  }

  showDrives(status) {
    const rates = status.drives.map((drive, index) => this.rate(sample => (sample.drives[index] || drive).bytes));
    const sum = rates.reduce((all, rate) => all + rate, 0);
    const limits = status.drives.map(drive => drive.limit_bytes_per_second);
    const limit = limits.length && limits.every(Boolean) ? limits.reduce((all, each) => all + each, 0) : null;
    const total = status.drives.reduce((all, drive) => all + drive.bytes, 0);
    setText(byId("drive"), formatRate(sum));
    setText(byId("drive-note"), limit ? `${formatShare(sum / limit)} of the ${formatRate(limit)} measured at the start` : `${formatSize(total)} so far; no limit known`);
    this.driveSpark.add(sum, limit);
    byId("drives-section").hidden = !status.drives.length;
    byId("drives").replaceChildren(...status.drives.map((drive, index) => {
      const facts = [formatRate(rates[index]), `${formatSize(drive.bytes)} read`];
      if (drive.temperature_celsius !== null) facts.push(`${Math.round(drive.temperature_celsius)} °C`);
      return make("li", {}, make("span", { title: drive.path }, make("bdi", {}, drive.path)), make("b", {}, facts.join(" · ")));
    }));
  }

  showExperts(status) {
    const first = this.samples[0].experts, { hits, misses, hit_rate: all } = status.experts;
    const newHits = hits - first.hits, picks = newHits + misses - first.misses;
    byId("hits-title").parentElement.hidden = hits + misses === 0;
    setText(byId("hits"), picks > 0 ? formatShare(newHits / picks) : formatShare(all));
    setText(byId("hits-note"), `${formatShare(all)} of ${formatCount(hits + misses)} picks since the start`);
  }

  showMemory(memory) {
    const names = { thread_stacks: "thread stacks" };
    const held = Object.values(memory.tenants).reduce((all, bytes) => all + bytes, 0);
    setText(byId("memory-note"), `${formatSize(held)} of ${formatSize(memory.budget_bytes)} planned; ${formatSize(memory.resident_bytes)} in use, ${formatSize(memory.peak_bytes)} at most so far`);
    Object.entries(memory.tenants).forEach(([tenant, bytes], index) => {
      if (!this.tenants.has(tenant)) {
        const part = make("span", { className: `t${index}` }), size = make("b");
        byId("memory-bar").append(part);
        byId("memory-list").append(make("li", { className: `t${index}` }, names[tenant] || tenant, size));
        this.tenants.set(tenant, { part, size });
      }
      const { part, size } = this.tenants.get(tenant);
      part.style.flex = `0 0 ${100 * bytes / memory.budget_bytes}%`;
      setText(size, formatSize(bytes));
    });
  }
}
