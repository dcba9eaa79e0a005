// Answers are Markdown. What is common of it becomes elements, everything else stays the text it is;
// nothing is ever taken for HTML.

const INLINE = /(`+)([^`]|[^`][\s\S]*?[^`])\1(?!`)|\*\*(\S(?:[\s\S]*?\S)?)\*\*|(?<![\w*])\*(\S(?:[^*]*?\S)?)\*(?![\w*])|\[([^\]\n]+)\]\((https?:\/\/[^\s)]+)\)/g;

const MOST_INLINE = 20000;  // characters of a block that are looked at closely

/// The text's runs: code, strong, emphasis, links.
function inlines(text) {
  if (text.length > MOST_INLINE) return [text];
  const nodes = [];
  let at = 0;
  for (const found of text.matchAll(INLINE)) {
    if (found.index > at) nodes.push(text.slice(at, found.index));
    at = found.index + found[0].length;
    const [, , code, strong, emphasis, label, address] = found;
    if (code !== undefined) nodes.push(make("code", {}, code));
    else if (strong !== undefined) nodes.push(make("strong", {}, ...inlines(strong)));
    else if (emphasis !== undefined) nodes.push(make("em", {}, ...inlines(emphasis)));
    else nodes.push(make("a", { href: address, rel: "noopener noreferrer", target: "_blank" }, label));
  }
  if (at < text.length) nodes.push(text.slice(at));
  return nodes;
}

const FENCE = /^ {0,3}(```+|~~~+)/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const cellsOf = line => line.trim().replace(/^\||\|$/g, "").split("|").map(cell => cell.trim());
const isRuler = line => line !== undefined && /^\s*\|?[\s:|-]*-[\s:|-]*$/.test(line) && line.includes("|");

function list(lines) {
  const lists = [];  // open ones, by depth
  let root = null;
  for (const line of lines) {
    const found = ITEM.exec(line);
    if (!found) {
      lists.at(-1).list.lastChild.append("\n", ...inlines(line.trim()));
      continue;
    }
    const [, blanks, mark, text] = found;
    while (lists.length > 1 && lists.at(-1).indent > blanks.length) lists.pop();
    if (!lists.length || blanks.length > lists.at(-1).indent + 1) {
      const numbered = /\d/.test(mark);
      const inner = make(numbered ? "ol" : "ul", numbered ? { start: parseInt(mark, 10) } : {});
      if (lists.length) lists.at(-1).list.lastChild.append(inner);
      else root = inner;
      lists.push({ indent: blanks.length, list: inner });
    }
    lists.at(-1).list.append(make("li", {}, ...inlines(text)));
  }
  return root;
}

function table(lines) {
  const row = (line, tag) => make("tr", {}, ...cellsOf(line).map(cell => make(tag, {}, ...inlines(cell))));
  return make("table", {}, make("thead", {}, row(lines[0], "th")), make("tbody", {}, ...lines.slice(2).map(line => row(line, "td"))));
}

/// One block of text without blank lines, or a fence with what is in it.
function block(text) {
  const lines = text.split("\n"), first = lines[0];
  if (FENCE.test(first)) {
    const closed = lines.length > 1 && FENCE.test(lines.at(-1));
    return [make("pre", { tabIndex: 0 }, make("code", {}, lines.slice(1, closed ? -1 : undefined).join("\n")))];
  }
  const heading = /^(#{1,6})\s+(.*?)\s*#*$/.exec(first);
  const rest = lines.slice(1).join("\n");
  if (heading) return [make("h3", {}, ...inlines(heading[2])), ...(rest ? block(rest) : [])];
  if (/^ {0,3}([-*_])( *\1){2,}\s*$/.test(first)) return [make("hr"), ...(rest ? block(rest) : [])];
  if (ITEM.test(first)) return [list(lines)];
  if (first.includes("|") && isRuler(lines[1])) return [table(lines)];
  if (lines.every(line => line.startsWith(">"))) {
    return [make("blockquote", {}, ...block(lines.map(line => line.replace(/^(> ?)+/, "")).join("\n")))];
  }
  // A list or a fence may follow its sentence without a blank line.
  const next = lines.findIndex((line, index) => index > 0 && (ITEM.test(line) && !/^\s*\d*[02-9][.)]/.test(line) || FENCE.test(line) || /^#{1,6}\s/.test(line)));
  if (next > 0) return [...block(lines.slice(0, next).join("\n")), ...block(lines.slice(next).join("\n"))];
  return [make("p", {}, ...inlines(text))];
}

/// The same, whatever the text: what nests too deep for a browser stays text.
function blockOrText(text) {
  try {
    return block(text);
  } catch {
    return [make("p", {}, text)];
  }
}

/// Where the block at the beginning ends and the next begins; null while more may belong to it.
function endOfBlock(text) {
  let fence = null, at = 0;
  while (true) {
    const end = text.indexOf("\n", at);
    if (end < 0) return null;
    const line = text.slice(at, end), mark = FENCE.exec(line);
    if (fence && mark && mark[1].startsWith(fence)) return { end, next: end + 1 };
    if (mark && !fence) fence = mark[1];
    if (!fence && !line.trim()) return { end: at > 0 ? at - 1 : 0, next: end + 1 };
    at = end + 1;
  }
}

/// Text that grows: blocks that are whole are made once, only the last is made anew.
class Growing {
  constructor(container, onBlock) {
    this.container = container;
    this.onBlock = onBlock || (() => {});
    this.open = "";
    this.last = [];
    this.frame = 0;
  }
  add(text) {
    this.open += text;
    if (!this.frame) this.frame = requestAnimationFrame(() => this.draw());
  }
  draw() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    for (const node of this.last) node.remove();
    for (let found; (found = endOfBlock(this.open));) {
      this.put(this.open.slice(0, found.end));
      this.open = this.open.slice(found.next);
    }
    this.last = this.open.trim() ? blockOrText(this.open) : [];
    this.container.append(...this.last);
  }
  finish() {
    this.draw();
    if (this.open.trim()) this.onBlock(this.open);
  }
  put(text) {
    if (!text.trim()) return;
    this.container.append(...blockOrText(text));
    this.onBlock(text);
  }
}
