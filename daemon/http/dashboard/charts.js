// Small charts: a meter, the progress bar of a batch, a line of recent values.
import { h, setAttribute, setTitle, svg } from './dom.js';

function width(element, fraction) {
  const text = `${(Math.min(1, Math.max(0, fraction)) * 100).toFixed(2)}%`;
  if (element.style.width !== text) element.style.width = text;
}

// A thin bar that is filled to value / most. Its text is in `aria-valuetext`.
export function meter(kind = '') {
  const bar = h('span', { class: 'fill' });
  const element = h('span', { class: `meter ${kind}`, role: 'meter', 'aria-valuemin': 0, 'aria-valuemax': 100 }, bar);
  const update = (fraction, label, text) => {
    width(bar, fraction);
    element.classList.toggle('nearly-full', fraction > 0.9);
    setAttribute(element, 'aria-valuenow', Math.round(Math.min(1, Math.max(0, fraction)) * 100));
    setAttribute(element, 'aria-label', label);
    setAttribute(element, 'aria-valuetext', text);
  };
  return { element, update };
}

// The jobs of a batch by status, side by side.
export function progress() {
  const parts = ['ok', 'failed', 'cancelled', 'running'].map((name) => [name, h('span', { class: `part ${name}` })]);
  const element = h('span', { class: 'progress', role: 'progressbar', 'aria-valuemin': 0, 'aria-valuemax': 100 }, parts.map(([, part]) => part));
  const update = (batch, text) => {
    for (const [name, part] of parts) width(part, batch.jobs ? batch[name] / batch.jobs : 0);
    setAttribute(element, 'aria-label', 'progress');
    setAttribute(element, 'aria-valuenow', Math.floor(fractionOver(batch) * 100));
    setAttribute(element, 'aria-valuetext', text);
    setTitle(element, text);
  };
  return { element, update };
}

export function fractionOver(batch) {
  if (batch.jobs) return (batch.ok + batch.failed + batch.cancelled) / batch.jobs;
  return batch.finished_at ? 1 : 0;
}

// A line of the last values, the newest at the right. `most`: the value at the top, by default the largest one.
export function sparkline(points = 60) {
  const area = svg('path', { class: 'area' });
  const line = svg('path', { class: 'line' });
  const element = svg('svg', { class: 'sparkline', viewBox: `0 0 ${points - 1} 30`, preserveAspectRatio: 'none', 'aria-hidden': 'true' }, area, line);
  const update = (values, most = Math.max(...values, 1e-9)) => {
    if (values.length < 2) {
      setAttribute(line, 'd', '');
      setAttribute(area, 'd', '');
      return;
    }
    const start = points - values.length;
    const at = values.map((value, i) => `${start + i} ${(29 - 27 * Math.min(1, value / most)).toFixed(2)}`);
    const path = `M${at.join('L')}`;
    setAttribute(line, 'd', path);
    setAttribute(area, 'd', `${path}V30H${start}Z`);
  };
  return { element, update };
}
