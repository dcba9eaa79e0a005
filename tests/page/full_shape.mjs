// A stand-in for a server of the full Kimi K3: what /v1/status and /v1/experts would say while it
// writes, faster than any machine is: a token each quarter of a second, all 92 layers, 16 of 896
// experts in each, half of them read.
const LAYERS = 92, EXPERTS = 896, PICKS = 16;
const IN_MEMORY = 1, FROM_MEMORY = 4, FROM_DRIVE = 8;

const json = body => ({ contentType: 'application/json', body: JSON.stringify(body) });

function words(now, cells) {
  const all = Uint32Array.from([LAYERS, EXPERTS, now, 0, ...cells]);
  return Buffer.from(all.buffer);
}

export async function actAsK3(page) {
  let passes = 0;
  await page.route('**/v1/experts*', route => {
    const cells = [];
    for (let layer = 0; layer < LAYERS; ++layer) {
      for (let pick = 0; pick < PICKS; ++pick) {
        const expert = (Math.random() * EXPERTS) | 0;
        cells.push((layer * EXPERTS + expert) * 16 + (pick % 2 ? IN_MEMORY | FROM_MEMORY : FROM_DRIVE));
      }
    }
    return route.fulfill({ contentType: 'application/octet-stream', body: words(++passes, cells) });
  });
  await page.route('**/v1/status', async route => {
    const now = await (await route.fetch()).json();
    const request = { id: 'other', choice: 0, choices: 1, layer: passes % LAYERS, prompt_tokens: 20, prompt_tokens_done: 20,
      tokens: passes, max_tokens: 4000, seconds: passes / 4, seconds_left: 1000 };
    const experts = { count: LAYERS * EXPERTS, hits: passes * 736, misses: passes * 736, hit_rate: 0.5 };
    return route.fulfill(json({ ...now, phase: 'decode', layers: LAYERS, request, experts, seconds_per_token: 0.25 }));
  });
}

/// Times between frames, in ms, sorted, over some seconds.
export function frameTimes(page, seconds) {
  return page.evaluate(ms => new Promise(resolve => {
    const times = [];
    let before = performance.now();
    const start = before;
    const frame = () => {
      const now = performance.now();
      times.push(now - before);
      before = now;
      if (now - start < ms) requestAnimationFrame(frame);
      else resolve(times.slice(1).sort((a, b) => a - b));
    };
    requestAnimationFrame(frame);
  }), 1000 * seconds);
}

/// What one picture of the map costs the page's own thread, in ms.
export function drawCost(page) {
  return page.evaluate(() => {
    const start = performance.now();
    for (let i = 0; i < 200; ++i) {
      map.paint(performance.now());
      map.context.putImageData(map.image, 0, 0);
    }
    return (performance.now() - start) / 200;
  });
}
