// A server of k3-nano, and a browser with the page open. Paths come from the environment, which
// scripts/test-page sets.
import { spawn } from 'node:child_process';
import { mkdtemp } from 'node:fs/promises';
import path from 'node:path';
import { chromium } from 'playwright-core';

const { PROGRAM, BROWSER, FOLDER, SOURCE } = process.env;

// Nothing but the page may use the network.
const FLAGS = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
  '--disable-background-networking', '--disable-component-update', '--disable-sync'];

export async function serve(...flags) {
  const child = spawn(PROGRAM, ['serve', path.join(SOURCE, 'models/k3-nano'), '--port', '0', ...flags]);
  let said = '';
  const url = await new Promise((resolve, reject) => {
    child.stderr.on('data', text => {
      said += text;
      const found = /(http:\S+)\/v1/.exec(said);
      if (found) resolve(found[1]);
    });
    child.on('exit', () => reject(new Error(`the server ended: ${said}`)));
  });
  const gone = new Promise(resolve => child.on('exit', resolve));
  return { url, stop: () => { child.kill('SIGINT'); return gone; } };
}

export async function browse(options = {}) {
  const context = await chromium.launchPersistentContext(await mkdtemp(path.join(FOLDER, 'profile-')), {
    executablePath: BROWSER, headless: true, args: FLAGS, viewport: { width: 1280, height: 800 }, ...options });
  return context;
}

/// A page whose complaints are kept, and which is let talk to its own server only.
export async function open(context, url) {
  const page = await context.newPage();
  page.complaints = [];
  page.on('console', message => { if (message.type() === 'error') page.complaints.push(message.text()); });
  page.on('pageerror', error => page.complaints.push(error.stack));
  page.on('request', request => {
    const to = request.url();
    if (!to.startsWith(url) && !to.startsWith('data:')) page.complaints.push(`a request to ${to}`);
  });
  await page.goto(url);
  await page.waitForSelector('#state[data-state="ready"]');
  return page;
}

/// No end token is ever the likeliest: the answer is as long as it may be.
export function neverEnding() {
  return Object.fromEntries(Array.from({ length: 256 }, (_, i) => [3840 + i, -100]));
}

/// Adds to the bodies of the page's chats; the server answers them as ever.
export async function addToChats(page, more) {
  await page.unroute('**/v1/chat/completions');
  await page.route('**/v1/chat/completions', route =>
    route.continue({ postData: JSON.stringify({ ...route.request().postDataJSON(), ...more }) }));
}

/// A stream that takes the engine, or a place in the queue, until it is left.
export async function occupy(url) {
  const abort = new AbortController();
  const response = await fetch(`${url}/v1/completions`, { method: 'POST', signal: abort.signal,
    body: JSON.stringify({ model: 'k3-nano', prompt: 'It was', stream: true, max_tokens: 4000, logit_bias: neverEnding() }) });
  if (!response.ok) throw new Error(await response.text());
  response.body.pipeTo(new WritableStream()).catch(() => {});  // it ends when it is left
  return { leave: () => abort.abort() };
}

export const status = async url => (await fetch(`${url}/v1/status`)).json();

export async function until(what, condition) {
  for (let i = 0; i < 600; ++i) {
    if (await condition()) return;
    await new Promise(resolve => setTimeout(resolve, 50));
  }
  throw new Error(`it never came to pass that ${what}`);
}
export const untilIdle = url => until('the engine is idle', async () => {
  const now = await status(url);
  return now.phase === 'idle' && now.queued === 0;
});
