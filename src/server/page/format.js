"use strict";
// Figures as people read them, and elements without HTML.

const byId = id => document.getElementById(id);

/// An element with properties and children; a string is text, never markup.
function make(tag, properties, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

/// Writes only what changed, so that nothing is laid out again for nothing.
function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function formatSize(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; bytes >= 1024 && unit < units.length - 1; ++unit) bytes /= 1024;
  return `${unit && bytes < 100 ? bytes.toFixed(1) : bytes.toFixed(0)} ${units[unit]}`;
}

/// Drives are sold and measured in powers of ten.
function formatRate(bytesPerSecond) {
  if (bytesPerSecond >= 1e9) return `${(bytesPerSecond / 1e9).toFixed(2)} GB/s`;
  return `${(bytesPerSecond / 1e6).toFixed(bytesPerSecond < 1e7 ? 1 : 0)} MB/s`;
}

function formatTime(seconds) {
  if (seconds < 1) return `${(1000 * seconds).toFixed(seconds < 0.01 ? 1 : 0)} ms`;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${(seconds / 3600).toFixed(1)} h`;
  return `${Math.round(seconds / 86400)} days`;
}

const formatCount = number => number.toLocaleString("en");
const formatSpeed = perSecond => perSecond >= 100 ? perSecond.toFixed(0) : perSecond.toPrecision(3);
const formatShare = share => `${(100 * share).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %`;
const counted = (number, word) => `${formatCount(number)} ${word}${number === 1 ? "" : "s"}`;
