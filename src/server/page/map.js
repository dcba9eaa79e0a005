// The map: a cell for each expert of each layer. What is in memory has a colour of its own; what is
// used or read lights up and fades. Each frame is one putImageData of the whole picture.

const IN_MEMORY = 1, READING = 2, FROM_MEMORY = 4, FROM_DRIVE = 8;  // weights::ExpertActivity
const FADE = 2600;   // ms
const LEVELS = 64;

class ExpertMap {
  constructor(canvas, caption) {
    this.canvas = canvas;
    this.caption = caption;
    this.layers = this.experts = this.now = 0;
    this.calm = matchMedia("(prefers-reduced-motion: reduce)");
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { this.readColours(); this.wake(); });
    new ResizeObserver(() => { this.fit(); this.wake(); }).observe(canvas);
    canvas.onmousemove = event => this.point(event);
    canvas.onmouseleave = () => this.select(null);
    canvas.onblur = () => this.select(null);
    canvas.onkeydown = event => this.walk(event);
    this.readColours();
    this.reset(0, 0);
  }

  reset(layers, experts) {
    this.layers = layers; this.experts = experts; this.now = 0; this.selected = null; this.kept = 0;
    const cells = layers * experts;
    this.state = new Uint8Array(cells);
    this.lit = new Float64Array(cells).fill(-Infinity);  // when it lit up last, in ms
    this.darkAt = 0;
    this.fit();
  }

  /// A pixel of the picture stands for as many experts as have to share one on the screen.
  fit() {
    if (!this.experts) return;
    const room = Math.max(1, this.canvas.clientWidth * devicePixelRatio);
    this.share = Math.max(1, Math.ceil(this.experts / room - 0.02));
    this.canvas.width = Math.ceil(this.experts / this.share);
    this.canvas.height = this.layers;
    this.canvas.style.height = `${this.layers * Math.max(2, Math.min(12, Math.floor(280 / this.layers)))}px`;
    this.context = this.canvas.getContext("2d");
    this.image = this.context.createImageData(this.canvas.width, this.layers);
    this.pixels = new Uint32Array(this.image.data.buffer);
  }

  /// colours[[kept, light] * LEVELS + level]: light 0 is of memory, 1 of a drive.
  readColours() {
    const probe = make("canvas", { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });
    const colour = name => {
      probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(name);
      probe.fillRect(0, 0, 1, 1);
      return probe.getImageData(0, 0, 1, 1).data;
    };
    const grounds = [colour("--cell-none"), colour("--cell-kept")], lights = [colour("--cell-used"), colour("--cell-read")];
    this.colours = new Uint32Array(4 * LEVELS);
    for (let kind = 0; kind < 4; ++kind) {
      for (let level = 0; level < LEVELS; ++level) {
        const share = level / (LEVELS - 1), mixed = new Uint8Array(4).fill(255);
        for (let i = 0; i < 3; ++i) mixed[i] = (1 - share) * grounds[kind >> 1][i] + share * lights[kind & 1][i];
        this.colours[kind * LEVELS + level] = new Uint32Array(mixed.buffer)[0];
      }
    }
  }

  /// What the server says has changed.
  take(changes, count) {
    this.count = count;  // layers differ: not every cell is an expert
    if (changes.layers !== this.layers || changes.experts !== this.experts || changes.now < this.now) this.reset(changes.layers, changes.experts);
    const first = this.now === 0, time = performance.now();
    this.now = changes.now;
    for (const word of changes.cells) {
      const cell = word >>> 4, state = word & 15;
      this.kept += (state & IN_MEMORY) - (this.state[cell] & IN_MEMORY);
      this.state[cell] = state;
      if (!first && state & (READING | FROM_MEMORY | FROM_DRIVE)) this.lit[cell] = time;
    }
    if (changes.cells.length) this.wake();
    this.describe();
  }

  /// Frames are drawn only as long as something fades.
  wake() {
    this.darkAt = performance.now() + FADE;
    if (!this.frame && this.experts) this.frame = requestAnimationFrame(time => this.draw(time));
  }
  draw(time) {
    this.frame = 0;
    this.paint(time);
    this.context.putImageData(this.image, 0, 0);
    if (this.selected) this.mark();
    if (time < this.darkAt) this.frame = requestAnimationFrame(next => this.draw(next));
  }

  paint(time) {
    const { state, lit, pixels, colours, share, experts, layers } = this, width = this.canvas.width, calm = this.calm.matches;
    for (let layer = 0, pixel = 0; layer < layers; ++layer) {
      const end = (layer + 1) * experts;
      for (let first = layer * experts, x = 0; x < width; ++x, first += share) {
        let latest = first, kept = 0;
        for (let cell = first, last = Math.min(first + share, end); cell < last; ++cell) {
          kept |= state[cell] & IN_MEMORY;
          if (lit[cell] > lit[latest]) latest = cell;
        }
        const left = 1 - (time - lit[latest]) / FADE;
        const level = left <= 0 ? 0 : calm || left >= 1 ? LEVELS - 1 : (LEVELS - 1) * left * left | 0;
        const drive = state[latest] & (FROM_DRIVE | READING) ? 1 : 0;
        pixels[pixel++] = colours[(kept * 2 + drive) * LEVELS + level];
      }
    }
  }

  point(event) {
    const box = this.canvas.getBoundingClientRect(), inside = (share, count) => Math.max(0, Math.min(count - 1, Math.floor(share * count)));
    this.select({ layer: inside((event.clientY - box.top) / box.height, this.layers), expert: inside((event.clientX - box.left) / box.width, this.experts) });
  }
  walk(event) {
    const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }, step = steps[event.key];
    if (!step) return;
    event.preventDefault();
    const at = this.selected || { layer: 0, expert: 0 }, far = event.shiftKey ? 10 : 1;
    const moved = (value, by, count) => Math.max(0, Math.min(count - 1, value + by * far));
    this.select({ layer: moved(at.layer, step[0], this.layers), expert: moved(at.expert, step[1], this.experts) });
  }
  select(cell) {
    this.selected = cell;
    this.describe();
    this.wake();
  }
  mark() {
    const x = Math.floor(this.selected.expert / this.share), y = this.selected.layer;
    this.context.fillStyle = getComputedStyle(this.canvas).color;
    this.context.fillRect(x, y, 1, 1);
  }
  describe() {
    if (!this.selected) {
      return setText(this.caption, `${formatCount(this.kept)} of ${formatCount(this.count)} in memory`);
    }
    const { layer, expert } = this.selected, state = this.state[layer * this.experts + expert];
    const use = state & FROM_MEMORY ? ", last used from memory" : state & FROM_DRIVE ? ", last read for use" : "";
    const where = state & READING ? "being read" : state & IN_MEMORY ? "in memory" : "not in memory";
    setText(this.caption, `Layer ${layer + 1}, expert ${expert}: ${where}${use}`);
  }
}
