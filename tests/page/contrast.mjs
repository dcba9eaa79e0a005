// The contrast of every text that is shown against what is behind it (WCAG 2.2, 1.4.3), worst first.
export function contrasts(page) {
  return page.evaluate(() => {
    const paint = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
    const rgba = colour => {
      paint.clearRect(0, 0, 1, 1);
      paint.fillStyle = colour;
      paint.fillRect(0, 0, 1, 1);
      return [...paint.getImageData(0, 0, 1, 1).data];
    };
    const behind = element => {
      for (let at = element; at; at = at.parentElement) {
        const colour = rgba(getComputedStyle(at).backgroundColor);
        if (colour[3] === 255) return colour;
      }
      return rgba(getComputedStyle(document.documentElement).backgroundColor);
    };
    const light = colour => {
      const [r, g, b] = colour.slice(0, 3).map(c => c / 255).map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const found = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const element = walker.currentNode.parentElement, style = getComputedStyle(element);
      if (!walker.currentNode.data.trim() || !element.checkVisibility() || element.closest('.unseen, .skip, :disabled, option')) continue;
      const [a, b] = [light(rgba(style.color)), light(behind(element))].sort((x, y) => y - x);
      found.push({ contrast: (a + 0.05) / (b + 0.05), text: walker.currentNode.data.trim().slice(0, 40) });
    }
    return found.sort((x, y) => x.contrast - y.contrast);
  });
}
