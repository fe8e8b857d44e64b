// The changes of a batch: pause, resume, weight, cancel, retry. Their outcome is written to a live region, which screen readers read
// aloud.
import { api } from './api.js';
import { count } from './format.js';
import { h, setAttribute, show } from './dom.js';

const SHOWN_FOR_MS = 8000;
export const jobs = (number) => (number === 1 ? '1 job' : `${count(number)} jobs`);

export function announcer(region) {
  let timer = null;
  return (text, kind = 'good') => {
    clearTimeout(timer);
    region.className = `said ${kind}`;
    region.textContent = text;
    timer = setTimeout(() => {
      region.className = 'said';
      region.textContent = '';
    }, SHOWN_FOR_MS);
  };
}

// Asks for confirmation; resolves to true or false. The browser's dialog keeps the focus and restores it, and Escape means no.
export function confirmed(text, yes, no) {
  return new Promise((resolve) => {
    const dialog = h('dialog', { 'aria-labelledby': 'question' },
      h('form', { method: 'dialog' },
        h('p', { id: 'question' }, text),
        h('p', { class: 'buttons' },
          h('button', { value: 'no', autofocus: true }, no),
          h('button', { value: 'yes', class: 'danger' }, yes))));
    dialog.addEventListener('close', () => {
      dialog.remove();
      resolve(dialog.returnValue === 'yes');
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

// The page of an open question is left: the question is refused. Before the next page takes the focus, which a dialog keeps from it.
export const refuseQuestion = () => document.querySelector('dialog[open]')?.close('no');

// `batch()` returns the current row; `done()` is called after a change.
export function actions(batch, say, done) {
  const button = (text, run, kind = '') => h('button', { type: 'button', class: kind, onclick: run }, text);
  const weight = h('input', { type: 'number', id: 'weight', min: 1, max: 1000, step: 1, required: true, inputmode: 'numeric' });
  const setWeight = h('button', { type: 'submit' }, 'Set weight');
  const weightForm = h('form', { class: 'weight' }, h('label', { for: 'weight' }, 'Weight'), weight, setWeight);
  const pause = button('Pause', () => act('pause', {}, () => 'Paused: no more of its jobs start.'));
  const resume = button('Resume', () => act('resume', {}, () => 'Resumed.'));
  // The daemon acts only in this round: so a request that is repeated after a lost reply queues no job twice.
  const retry = button('Retry failed jobs', () => act('retry', { round: batch().retry_rounds }, retried));
  const cancel = button('Cancel', cancelled, 'danger');
  const element = h('div', { class: 'actions', role: 'group', 'aria-label': 'Actions' }, pause, resume, retry, cancel, weightForm);
  let busy = false;

  async function act(what, body, tell) {
    if (busy) return;
    busy = true;
    setAttribute(element, 'aria-busy', true);
    try {
      say(tell(await api.act(batch(), what, body)));
    } catch (error) {
      say(`Not done: ${error.message}`, 'bad');
    }
    busy = false;
    setAttribute(element, 'aria-busy', null);
    done();
  }

  const retried = (reply) => (reply.jobs > 0 ? `${jobs(reply.jobs)} queued again.` : 'Nothing was queued again: the batch has been retried meanwhile.');

  async function cancelled() {
    const row = batch();
    const left = row.jobs - row.ok - row.failed - row.cancelled;
    const question = `Cancel the batch ${row.name || row.id}? ${jobs(left)} will not run, or will be asked to stop. This cannot be undone.`;
    if (await confirmed(question, 'Cancel the batch', 'Keep it')) act('cancel', {}, (reply) => `Cancelled: ${jobs(reply.jobs)} will not run.`);
  }

  weightForm.addEventListener('submit', (event) => {
    event.preventDefault();
    const wanted = Number(weight.value);
    act('weight', { weight: wanted }, () => `Its weight is now ${wanted}.`);
  });

  const update = (row) => {
    const over = row.finished_at > 0;
    const focused = document.activeElement;
    show(pause, !over && !row.paused);
    show(resume, !over && row.paused);
    show(retry, row.failed > 0 && row.state !== 'cancelled');
    show(cancel, !over);
    show(weightForm, !over);
    // An input with the focus is not overwritten.
    if (document.activeElement !== weight && weight.dataset.known !== String(row.weight)) {
      weight.value = row.weight;
      weight.dataset.known = row.weight;
    }
    // If the focused button disappears, another one gets the focus, for keyboard users.
    if (element.contains(focused) && !focused.checkVisibility()) {
      const next = [...element.querySelectorAll('button')].find((one) => one.checkVisibility());
      (next ?? document.querySelector('h1')).focus();
    }
  };
  return { element, update };
}
