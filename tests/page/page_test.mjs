// The page as people use it, step by step.
import assert from 'node:assert/strict';
import path from 'node:path';
import { contrasts } from './contrast.mjs';
import { actAsK3, drawCost, frameTimes } from './full_shape.mjs';
import { addToChats, browse, neverEnding, occupy, open, serve, status, until, untilIdle } from './served.mjs';

const server = await serve('--queue', '1', '--threads', '1', '--ram', '64M');
const context = await browse();
const page = await open(context, server.url);
const say = async text => { await page.fill('#text', text); await page.press('#text', 'Enter'); };
const answers = () => page.locator('.answer').count();
const ended = () => page.waitForSelector('#stop', { state: 'hidden' });
const lastAnswer = () => page.locator('.answer').last();
const picture = async name => {
  if (process.env.PICTURES) await page.screenshot({ path: path.join(process.env.SOURCE, 'docs/images', name) });
};
const set = async (id, value) => { await page.fill(`#${id}`, value); await page.dispatchEvent(`#${id}`, 'change'); };

const steps = {
  async 'it says what is served, and asks nobody else'() {
    assert.equal(await page.title(), 'Sluice');
    assert.equal(await page.textContent('#model'), 'k3-nano');
    assert.match(await page.textContent('#hello-facts'), /4,096 tokens/);
    assert.equal(await page.evaluate(() => document.activeElement.id), 'text');
  },

  async 'an answer streams, its reasoning folded'() {
    await page.selectOption('#effort', 'low');
    await addToChats(page, { max_completion_tokens: 400, logit_bias: neverEnding(), seed: 3 });
    await page.evaluate(() => {
      window.lengths = new Set();
      new MutationObserver(() => window.lengths.add(document.querySelector('.answer')?.textContent.length)).observe(
        document.getElementById('talk'), { childList: true, subtree: true, characterData: true });
    });
    await say('What is a sluice?');
    await page.waitForSelector('#stop:not([hidden])');
    assert.ok(await page.isDisabled('#send'));
    await ended();
    assert.ok((await page.evaluate(() => window.lengths.size)) > 3, 'it came in pieces');
    assert.equal(await page.locator('.answer details').getAttribute('open'), null);
    assert.match(await lastAnswer().locator('.foot').textContent(), /400 tokens in .*cut off/);
    assert.match(await page.textContent('#told'), /400 tokens/, 'it is said aloud');
  },

  async 'stop ends it, and the engine'() {
    await page.selectOption('#effort', 'none');
    await addToChats(page, { logit_bias: neverEnding(), seed: 4 });
    await say('And then?');
    await page.waitForFunction(() => document.querySelectorAll('.answer')[1]?.querySelector('.text').textContent.length > 200);
    assert.match(await lastAnswer().locator('.pending').textContent(), /Writing/);
    await page.press('#text', 'Escape');
    await ended();
    assert.match(await lastAnswer().locator('.foot').textContent(), /Stopped/);
    assert.ok((await lastAnswer().locator('.text').textContent()).length > 200, 'what came stays');
    await untilIdle(server.url);
  },

  async 'a reload loses nothing'() {
    const before = await page.locator('.turn').allTextContents();
    await page.reload();
    await page.waitForSelector('#state[data-state="ready"]');
    assert.deepEqual(await page.locator('.turn').allTextContents(), before);
    assert.equal(await page.inputValue('#effort'), 'none', 'settings stay, too');
  },

  async 'a reload in the middle keeps what came'() {
    await addToChats(page, { logit_bias: neverEnding(), seed: 5 });
    await say('Go on');
    await page.waitForFunction(() => document.querySelectorAll('.answer')[2]?.querySelector('.text').textContent.length > 200);
    await page.reload();
    await page.waitForSelector('#state[data-state]');
    assert.match(await lastAnswer().locator('.foot').textContent(), /Interrupted/);
    assert.ok((await lastAnswer().locator('.text').textContent()).length > 200);
    await untilIdle(server.url);
  },

  async 'a long answer is followed, unless one reads above'() {
    await page.click('#clear');
    await addToChats(page, { max_completion_tokens: 3500, logit_bias: neverEnding(), seed: 6 });
    await say('Tell me everything');
    const place = () => page.$eval('#talk', talk => talk.scrollHeight - talk.scrollTop - talk.clientHeight);
    await page.waitForFunction(() => document.getElementById('talk').scrollHeight > 1500);
    await until('the end is in view', async () => (await place()) < 60);
    await page.$eval('#talk', talk => { talk.scrollTop = 0; });
    await page.waitForSelector('#newest:not([hidden])');
    await ended();
    assert.ok((await place()) > 500, 'nobody is torn away from where they read');
    await page.click('#newest');
    await until('the end is in view again', async () => (await place()) < 60);
    assert.match(await lastAnswer().locator('.foot').textContent(), /3,500 tokens/);
  },

  async 'what is too long is explained, and the conversation goes on'() {
    await addToChats(page, { max_completion_tokens: 12 });
    await say('word '.repeat(5000));
    await page.waitForSelector('.error');
    await ended();
    assert.match(await page.textContent('.error'), /context/);
    await page.click('#clear');
    await say('Short');
    await page.waitForFunction(() => document.querySelectorAll('.foot').length === 1);
    assert.equal(await page.locator('.error').count(), 0);
  },

  async 'who waits sees the place, and gets an answer'() {
    const running = await occupy(server.url);
    await until('it runs', async () => (await status(server.url)).phase !== 'idle');
    await say('Am I next?');
    await page.waitForFunction(() => /Next in the queue/.test(document.querySelector('.answer:last-child .pending')?.textContent));
    await until('the panel shows it', async () => (await page.textContent('#queue')) === '1');
    running.leave();
    await page.waitForFunction(() => document.querySelectorAll('.foot').length === 2);
  },

  async 'a full queue says when to come again'() {
    const running = await occupy(server.url);
    await until('it runs', async () => (await status(server.url)).phase !== 'idle');
    const waiting = await occupy(server.url);
    await until('one waits', async () => (await status(server.url)).queued === 1);
    const before = await answers();
    await say('Is there room?');
    await page.waitForSelector('.error');
    assert.match(await page.textContent('.error'), /queue is full: your request would have been number 2\. Try again in about/);
    running.leave();
    waiting.leave();
    await untilIdle(server.url);
    await page.click('.answer:last-child .again');
    await page.waitForFunction(count => document.querySelectorAll('.foot').length === count + 1 && !document.querySelector('.error'), before);
    page.complaints = page.complaints.filter(text => !/ (400|429) /.test(text));  // Chromium's own words for these two
  },

  async 'the keyboard is enough'() {
    await page.reload();
    await page.waitForSelector('#state[data-state="ready"]');
    await addToChats(page, { max_completion_tokens: 12 });
    await page.evaluate(() => document.activeElement.blur());
    const reached = [];
    for (let i = 0; i < 60; ++i) {
      await page.keyboard.press('Tab');
      const at = await page.evaluate(() => {
        const element = document.activeElement, style = getComputedStyle(element);
        const box = element.closest('.box');
        const seen = style.outlineStyle !== 'none' || (box && getComputedStyle(box).boxShadow !== 'none');
        return { id: element.id || element.className || element.tagName, seen };
      });
      if (reached.includes(at.id) && at.id === reached[0]) break;
      assert.ok(at.seen || at.id === 'BODY', `the focus is seen on ${at.id}`);
      reached.push(at.id);
    }
    for (const id of ['skip', 'clear', 'show-machine', 'talk', 'text', 'effort', 'show-settings', 'send', 'map']) {
      assert.ok(reached.includes(id), `${id} is reached: ${reached}`);
    }
    await page.focus('.skip');
    await page.keyboard.press('Enter');
    assert.equal(await page.evaluate(() => document.activeElement.id), 'text');
    const before = await page.locator('.foot').count();
    await page.keyboard.type('One line');
    await page.keyboard.press('Shift+Enter');
    await page.keyboard.type('and another');
    await page.keyboard.press('Enter');
    await page.waitForFunction(count => document.querySelectorAll('.foot').length > count, before);
    assert.equal(await page.locator('.user').last().textContent(), 'One line\nand another');
    await page.focus('#map');
    await page.keyboard.press('ArrowDown');
    assert.match(await page.textContent('#map-at'), /^Layer 2, expert 0: /);
    await page.focus('#show-settings');
    await page.keyboard.press('Space');
    assert.ok(await page.isVisible('#settings'));
    await page.keyboard.press('Space');
  },

  async 'text is text, whoever wrote it'() {
    const hostile = '<img src=x onerror="document.title=1"> <script>document.title=2</script>';
    const words = `# Head\n\n${hostile} **bold** \`code\` [link](javascript:alert(1)) [good](https://a.example/)\n\n` +
      `1. one\n2. two\n   - inner\n\n\`\`\`html\n${hostile}\n\n\`\`\`\n| a | b |\n|---|---|\n| ${hostile} | 2 |\n\n> said\n\n${'>'.repeat(9000)} deep ${'*'.repeat(9000)}`;
    await page.unroute('**/v1/chat/completions');
    await page.route('**/v1/chat/completions', route => {
      const chunk = delta => `data: ${JSON.stringify({ id: 'x', choices: [{ index: 0, delta, finish_reason: null }] })}\n\n`;
      const body = [...words].map((_, at) => at % 97 ? '' : chunk({ content: words.slice(at, at + 97) })).join('');
      return route.fulfill({ contentType: 'text/event-stream', body: `${body}data: [DONE]\n\n` });
    });
    await say(hostile);
    await page.waitForFunction(() => document.querySelector('.answer:last-child .foot'));
    assert.equal(await page.title(), 'Sluice');
    assert.equal(await page.locator('#talk img, #talk script').count(), 0);
    assert.equal(await page.locator('.user').last().textContent(), hostile);
    const last = lastAnswer();
    assert.equal(await last.locator('h3').textContent(), 'Head');
    assert.equal(await last.locator('pre code').textContent(), `${hostile}\n`);
    assert.equal(await last.locator('ol > li').count(), 2);
    assert.equal(await last.locator('ol ul > li').textContent(), 'inner');
    assert.equal(await last.locator('td').first().textContent(), hostile);
    assert.deepEqual(await last.locator('a').evaluateAll(all => all.map(a => a.getAttribute('href'))), ['https://a.example/']);
    const saved = await last.locator('.text').innerHTML();
    await page.reload();
    assert.equal(await lastAnswer().locator('.text').innerHTML(), saved, 'cut into chunks or whole, it looks the same');
    await page.click('#clear');
  },

  async 'the machine is seen at work'() {
    await page.waitForSelector('#map-section:not([hidden])');
    await addToChats(page, { logit_bias: neverEnding(), seed: 1, temperature: 0.6 });
    await say('It was on a dreary night of November, that I beheld');
    const colours = () => page.evaluate(() => new Set(map.pixels).size);
    await until('the map is lit', async () => (await colours()) > 5);
    await until('figures are there', async () => /\d/.test(await page.textContent('#speed')));
    assert.match(await page.textContent('#drive'), /[1-9].* [MG]B\/s/);
    assert.match(await page.textContent('#hits'), /\d %/);
    assert.match(await page.textContent('#phase'), /Writes: .* at most .* left/);
    assert.match(await page.textContent('#memory-note'), /64\.0 MiB planned/);
    await picture('page-light.png');
    await page.emulateMedia({ colorScheme: 'dark' });
    await page.waitForTimeout(400);
    await picture('page-dark.png');
    await page.press('#text', 'Escape');
    await ended();
    await page.emulateMedia({ colorScheme: 'light' });
    await until('it is dark again', async () => (await colours()) <= 3);
  },

  async 'light and dark have enough contrast'() {
    const grounds = new Set();
    await page.click('#show-settings');
    for (const colorScheme of ['light', 'dark']) {
      await page.emulateMedia({ colorScheme });
      await page.waitForTimeout(100);
      grounds.add(await page.$eval('body', body => getComputedStyle(body).backgroundColor));
      const [worst] = await contrasts(page);
      console.log(`    ${colorScheme}: least contrast ${worst.contrast.toFixed(2)} ("${worst.text}")`);
      assert.ok(worst.contrast >= 4.5);
    }
    assert.equal(grounds.size, 2);
    await page.click('#show-settings');
    await page.emulateMedia({ colorScheme: 'light' });
  },

  async 'a narrow window has everything'() {
    const sideways = () => page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    for (const width of [320, 390, 800]) {
      await page.setViewportSize({ width, height: 780 });
      await page.waitForFunction(() => document.body.classList.contains('alone'));
      assert.ok((await sideways()) <= 0, `nothing sticks out at ${width}`);
      assert.ok(await page.isVisible('#send'));
      await page.click('#show-machine');
      assert.ok(await page.isVisible('#map'));
      assert.ok((await sideways()) <= 0);
      if (width === 390) await picture('page-narrow.png');
      await page.click('#show-machine');
    }
    await page.setViewportSize({ width: 1280, height: 800 });
    await page.waitForSelector('#map');
  },

  async 'the full shape of K3 is drawn in time'() {
    await actAsK3(page);
    await page.waitForFunction(() => map.layers === 92 && map.experts === 896);
    await page.waitForTimeout(3000);
    const times = await frameTimes(page, 5), at = share => times[Math.floor(share * (times.length - 1))].toFixed(1);
    console.log(`    92 x 896: ${times.length} frames in 5 s; between two: median ${at(0.5)} ms, 99 % ${at(0.99)} ms, most ${at(1)} ms`);
    console.log(`    a picture of the map takes ${(await drawCost(page)).toFixed(2)} ms`);
    assert.equal(await page.$eval('#map', canvas => canvas.height), 92);
    assert.ok((await page.evaluate(() => new Set(map.pixels).size)) > 10, 'it is lit');
    assert.equal(await page.evaluate(() => map.share), 2, 'two experts share a pixel of a plain screen');
    await page.unroute('**/v1/status');
    await page.unroute('**/v1/experts*');
  },

  async 'a server that goes away is missed'() {
    assert.deepEqual(page.complaints, []);
    await server.stop();
    await page.waitForSelector('#state[data-state="away"]');
    assert.match(await page.textContent('#state-text'), /does not answer/);
  },
};

let failed = 0;
for (const [name, step] of Object.entries(steps)) {
  try {
    await step();
    console.log(`ok      ${name}`);
  } catch (error) {
    ++failed;
    console.log(`FAILED  ${name}\n${error.stack}`);
    await page.unrouteAll({ behavior: 'ignoreErrors' }).catch(() => {});
    await page.screenshot({ path: path.join(process.env.FOLDER, 'failed.png') }).catch(() => {});
  }
}
await context.close();
await server.stop();
console.log(`${Object.keys(steps).length - failed} passed, ${failed} failed`);
process.exitCode = failed ? 1 : 0;
