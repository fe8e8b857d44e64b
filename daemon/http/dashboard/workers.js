// The workers as bars: how busy each was recently, how much waits in its queue, and which worker stole from which.
import { exact, percent, rate } from './format.js';
import { h, keyed, setAttribute, setText, svg, table } from './dom.js';

const LEAST_PITCH = 6; // if bars were closer than this, they continue in another row
const MOST_PITCH = 132;
const MOST_ARCS = 120;

// The positions of all bars, for this number of workers and this width.
function layout(workers, room, pairs) {
  const rows = Math.max(1, Math.ceil((workers * LEAST_PITCH) / room));
  const columns = Math.ceil(workers / rows);
  const pitch = Math.min(MOST_PITCH, room / columns);
  const bar = pitch - Math.min(28, Math.max(1.5, pitch * 0.24));
  const roomy = pitch >= 44;
  const [most, busy, label, queue, foot] = rows === 1 ? [96, 104, 18, 40, roomy ? 18 : 4] : [30, 44, 15, 20, 4];
  const arcs = pairs ? most : 8;
  const above = arcs + (roomy ? 26 : 7);
  const every = pitch >= 24 ? 1 : [2, 4, 8, 16, 32].find((step) => step * pitch >= 26) ?? 64;
  const height = above + busy + label + queue + foot;
  const left = rows === 1 ? (room - pitch * columns) / 2 : 0;
  const place = (index) => ({
    x: left + (index % columns) * pitch + (pitch - bar) / 2,
    y: Math.floor(index / columns) * height,
  });
  return { rows, columns, pitch, bar, roomy, arcs, above, busy, label, queue, every, height, place };
}

// An arc from the victim's bar to the thief's, over the bars between them. It leaves each bar on one side and reaches it on the other,
// so that two workers that steal from each other have two arcs.
function arc(plan, victim, thief) {
  const from = plan.place(victim);
  const to = plan.place(thief);
  const lift = plan.roomy ? 24 : 6;
  const half = plan.bar / 2;
  const aside = Math.min(half * 0.6, 14);
  const rightwards = to.x > from.x || (to.x === from.x && to.y > from.y);
  const x1 = from.x + half + (rightwards ? aside : -aside) * (plan.roomy ? 1 : 0);
  const x2 = to.x + half - (rightwards ? aside : -aside) * (plan.roomy ? 1 : 0);
  const y1 = from.y + plan.above - lift;
  const y2 = to.y + plan.above - lift;
  const far = Math.abs(x2 - x1) / (plan.columns * plan.pitch);
  const rise = plan.arcs * Math.min(1, 0.35 + 0.65 * far) * (rightwards ? 1 : 0.6);
  const top = Math.min(y1, y2) - rise * 1.25;
  return { path: `M${x1.toFixed(1)} ${y1.toFixed(1)}C${x1.toFixed(1)} ${top.toFixed(1)} ${x2.toFixed(1)} ${top.toFixed(1)} ${x2.toFixed(1)} ${y2.toFixed(1)}`, x: (x1 + x2) / 2, y: (y1 + y2) / 2 - (Math.min(y1, y2) - top) * 0.75 + (rightwards ? -6 : 16) };
}

function column(index) {
  const parts = {
    track: svg('rect', { class: 'track', rx: 2 }),
    busy: svg('rect', { class: 'busy', rx: 2 }),
    share: svg('text', { class: 'share' }),
    label: svg('text', { class: 'label' }),
    queue: svg('rect', { class: 'queue', rx: 1.5 }),
    depth: svg('text', { class: 'depth' }),
    steals: svg('circle', { class: 'stole' }),
    title: svg('title'),
  };
  return { element: svg('g', { 'class': 'worker', 'data-worker': index }, Object.values(parts)), parts };
}

export function workersChart() {
  const arcs = svg('g', { class: 'arcs' });
  const columns = svg('g');
  const head = svg('marker', { id: 'arrow', viewBox: '0 0 8 8', refX: 3, refY: 4, markerWidth: 2.6, markerHeight: 2.6, orient: 'auto' }, svg('path', { d: 'M0 0.6L8 4L0 7.4Z' }));
  const picture = svg('svg', { class: 'workers', role: 'img' }, svg('defs', {}, head), columns, arcs);
  const key = h('p', { class: 'key' });
  const host = h('div', { class: 'workers-host' }, picture);
  const numbers = table('Workers, in numbers', [
    ['worker', 'Worker'], ['busy', 'Busy', 'number'], ['depth', 'In its queue', 'number'], ['executed', 'Executed', 'number'],
    ['steals', 'Steals', 'number'], ['stolen', 'Stolen by it', 'number'], ['parks', 'Parked', 'number'],
  ]);
  const details = h('details', { class: 'numbers' }, h('summary', {}, 'In numbers'), h('div', { class: 'scroll' }, numbers.element));
  const element = h('div', {}, host, key, details);
  let last = null;
  let deepestYet = 8;
  let drawnFor = '';

  function draw() {
    const room = Math.floor(host.clientWidth);
    if (!last || !room) return;
    const { workers, steals, seconds } = last;
    const plan = layout(workers.length, room, last.pairs);
    const height = plan.height * plan.rows;
    // Bars grow and shrink smoothly, but after a resize they move at once.
    const form = `${room} ${workers.length} ${last.pairs}`;
    picture.classList.toggle('moves', form === drawnFor);
    drawnFor = form;
    setAttribute(picture, 'viewBox', `0 0 ${room} ${height}`);
    setAttribute(picture, 'width', room);
    setAttribute(picture, 'height', height);
    const deepest = Math.max(...workers.map((row) => row.queue_depth), 0);
    deepestYet = Math.max(8, deepest, deepestYet * 0.9);
    const pairless = !last.pairs;
    keyed(columns, workers, (row) => row.worker, (row) => column(row.worker), (row, { parts }) => {
      const { x, y } = plan.place(row.worker);
      const middle = x + plan.bar / 2;
      const floor = y + plan.above + plan.busy;
      const tall = plan.busy * (row.busy ?? 0);
      const deep = row.queue_depth ? Math.max(2, plan.queue * Math.min(1, row.queue_depth / deepestYet)) : 0;
      const set = (part, values) => Object.entries(values).forEach(([name, value]) => setAttribute(parts[part], name, typeof value === 'number' ? +value.toFixed(2) : value));
      set('track', { x, y: floor - plan.busy, width: plan.bar, height: plan.busy });
      set('busy', { x, y: floor - tall, width: plan.bar, height: tall });
      set('queue', { x, y: floor + plan.label, width: plan.bar, height: deep });
      set('share', { x: middle, y: floor - plan.busy - 5 });
      set('label', { x: middle, y: floor + plan.label - 5 });
      set('depth', { x: middle, y: floor + plan.label + deep + 12 });
      set('steals', { cx: middle, cy: floor - plan.busy - 5, r: pairless && row.stealing ? Math.min(plan.pitch / 2, 1.5 + Math.log10(1 + row.stealing)) : 0 });
      setText(parts.share, plan.roomy ? percent(row.busy) : '');
      setText(parts.label, row.worker % plan.every === 0 ? (plan.pitch >= 84 ? `worker ${row.worker}` : `${row.worker}`) : '');
      setText(parts.depth, plan.pitch >= 84 ? `${row.queue_depth} queued` : plan.roomy && row.queue_depth ? `${row.queue_depth}` : '');
      setText(parts.title, `worker ${row.worker}: ${percent(row.busy)} busy, ${row.queue_depth} in its queue, stole ${rate(row.stealing)}`);
    });
    const drawn = steals.slice(0, MOST_ARCS);
    const few = drawn.length <= 8 && plan.roomy;
    keyed(arcs, drawn, (row) => `${row.victim}>${row.thief}`, () => {
      const path = svg('path', { 'marker-end': 'url(#arrow)' });
      const text = svg('text');
      const title = svg('title');
      return { element: svg('g', { class: 'steal' }, path, text, title), path, text, title };
    }, (row, part) => {
      const { path, x, y } = arc(plan, row.victim, row.thief);
      setAttribute(part.path, 'd', path);
      setAttribute(part.path, 'stroke-width', Math.min(plan.roomy ? 5 : 3, 1.2 + 1.1 * Math.log10(1 + row.rate)).toFixed(2));
      setAttribute(part.text, 'x', x.toFixed(1));
      setAttribute(part.text, 'y', y.toFixed(1));
      setText(part.text, few ? rate(row.rate) : '');
      setAttribute(part.element, 'data-pair', `${row.victim}>${row.thief}`);
      setText(part.title, `worker ${row.thief} stole from worker ${row.victim}: ${rate(row.rate)}`);
    });
    const busy = workers.reduce((sum, row) => sum + (row.busy ?? 0), 0) / workers.length;
    setAttribute(picture, 'aria-label', `${workers.length} workers, ${percent(busy)} busy; the deepest queue holds ${deepest}; ${steals.length} pairs of thief and victim`);
    const span = seconds ? `the last ${Math.max(1, Math.round(seconds))} s` : 'the last seconds';
    keyed(key, [
      ['busy', `busy share of ${span}`],
      ['queue', deepest ? `queue, the deepest ${exact(deepest)}` : 'queue'],
      pairless ? ['stole', 'thieves: the larger, the more steals'] : ['steal', 'steals, from victim to thief: the thicker, the more'],
    ], ([name]) => name, ([name]) => {
      const text = h('span');
      return { element: h('span', { class: 'entry' }, h('span', { class: `swatch ${name}`, 'aria-hidden': 'true' }), text), text };
    }, ([, text], part) => setText(part.text, text));
    if (details.open) list();
  }

  function list() {
    keyed(numbers.body, last.workers, (row) => row.worker, numbers.row, (row, { cells }) => {
      setText(cells.worker, `${row.worker}`);
      setText(cells.busy, percent(row.busy));
      for (const [cell, value] of [['depth', row.queue_depth], ['executed', row.executed], ['steals', row.steals], ['stolen', row.stolen], ['parks', row.parks]]) setText(cells[cell], exact(value));
    });
  }

  details.addEventListener('toggle', () => details.open && last && list());
  new ResizeObserver(draw).observe(host);
  const update = (overview, recent) => {
    const busy = recent.rates('workers', (row) => row.worker, (row) => row.busy_us / 1e6);
    const stealing = recent.rates('workers', (row) => row.worker, (row) => row.steals);
    last = {
      workers: overview.workers.map((row) => ({ ...row, busy: busy.get(row.worker) === null ? null : Math.min(1, busy.get(row.worker)), stealing: stealing.get(row.worker) })),
      steals: recent.steals(),
      pairs: overview.steals.length > 0 || overview.workers.length <= 64,
      seconds: recent.seconds,
    };
    draw();
  };
  return { element, update };
}
