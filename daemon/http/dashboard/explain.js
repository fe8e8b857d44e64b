// Why a batch is not running, and when it will end: EXPLAIN in words.
import { count, duration, exact, percent, rate, reason } from './format.js';
import { h, keyed, setText, setTitle, show } from './dom.js';

// Names and values side by side. `update` takes [name, text, title], and omits entries without a text.
export function facts(classes = '') {
  const element = h('dl', { class: `facts ${classes}` });
  const update = (rows) =>
    keyed(element, rows.filter(([, text]) => text !== null), ([name]) => name, ([name]) => {
      const value = h('dd');
      return { element: h('div', {}, h('dt', {}, name), value), value };
    }, ([, text, title], { value }) => {
      if (text instanceof Node) {
        if (value.firstChild !== text) value.replaceChildren(text);
        return;
      }
      setText(value, text);
      setTitle(value, title);
    });
  return { element, update };
}

export const timeLeft = (batch) => (batch.finished_at || batch.eta_ms < 0 ? null : batch.eta_ms / 1000);

export function explanation() {
  const sentence = h('p', { class: 'sentence' });
  const list = facts();
  const after = h('p');
  const element = h('div', { class: 'explanation' }, sentence, after, list.element);
  const update = (batch) => {
    setText(sentence, reason(batch.reason));
    show(after, batch.after?.length > 0);
    setText(after, `It waits for: ${(batch.after ?? []).join(', ')}`);
    const over = batch.finished_at > 0;
    list.update([
      ['Reason', over ? null : batch.reason],
      ['Served before it', over ? null : batch.ahead === 1 ? '1 batch' : `${count(batch.ahead)} batches`, exact(batch.ahead)],
      ['Share due', over ? null : percent(batch.share), exact(batch.share)],
      ['Share received', over ? null : percent(batch.received), exact(batch.received)],
      ['Rate', over ? null : rate(batch.jobs_per_second), exact(batch.jobs_per_second)],
      ['Ends in', over ? null : timeLeft(batch) === null ? 'unknown' : `about ${duration(timeLeft(batch))}`],
    ]);
  };
  return { element, update };
}
