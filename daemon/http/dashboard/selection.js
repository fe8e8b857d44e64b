// Actions on several batches of the list: what is selected, and what can be done with it.
import { api } from './api.js';
import { confirmed, jobs } from './actions.js';
import { count } from './format.js';
import { h, setAttribute, setText, show } from './dom.js';

const MOST_NAMES = 3; // in a question
const batches = (number) => (number === 1 ? '1 batch' : `${count(number)} batches`);
const over = (row) => row.finished_at > 0;

// What can be done, with which batches it can be done, and how the outcome is told: for a number of batches, and the jobs of all replies.
const ACTIONS = [
  { what: 'pause', text: 'Pause', fits: (row) => !over(row) && !row.paused, tell: (number) => `Paused: ${batches(number)}.` },
  { what: 'resume', text: 'Resume', fits: (row) => !over(row) && row.paused, tell: (number) => `Resumed: ${batches(number)}.` },
  // The daemon acts only in this round: so a request that is repeated after a lost reply queues no job twice.
  { what: 'retry', text: 'Retry failed jobs', fits: (row) => row.failed > 0 && row.state !== 'cancelled', body: (row) => ({ round: row.retry_rounds }), tell: (number, all) => `${jobs(all)} of ${batches(number)} queued again.` },
  { what: 'cancel', text: 'Cancel', kind: 'danger', fits: (row) => !over(row), asks: cancelQuestion, tell: (number, all) => `Cancelled: ${batches(number)}, ${jobs(all)} will not run.` },
];

function cancelQuestion(rows) {
  const left = rows.reduce((sum, row) => sum + row.jobs - row.ok - row.failed - row.cancelled, 0);
  const names = rows.slice(0, MOST_NAMES).map((row) => row.name || row.id).join(', ');
  const others = rows.length > MOST_NAMES ? ` and ${count(rows.length - MOST_NAMES)} more` : '';
  return { text: `Cancel ${batches(rows.length)} (${names}${others})? ${jobs(left)} will not run, or will be asked to stop. This cannot be undone.`, yes: rows.length === 1 ? 'Cancel the batch' : 'Cancel the batches', no: rows.length === 1 ? 'Keep it' : 'Keep them' };
}

// `keyOf` identifies a row of the list; `say` and `done` are as in actions().
export function selection(keyOf, say, done) {
  const selected = new Set();
  let rows = [];
  let busy = false;
  const all = h('input', { type: 'checkbox', id: 'select-all', onchange: () => choose(rows, all.checked) });
  const number = h('span', { class: 'note', role: 'status' });
  const buttons = ACTIONS.map((action) => ({ action, element: h('button', { type: 'button', class: action.kind, onclick: () => act(action) }) }));
  const weight = h('input', { type: 'number', id: 'weight-of-selected', min: 1, max: 1000, step: 1, required: true, inputmode: 'numeric' });
  const setWeight = h('button', { type: 'submit' }, 'Set weight');
  const weightForm = h('form', { class: 'weight' }, h('label', { for: 'weight-of-selected' }, 'Weight'), weight, setWeight);
  const actions = h('div', { 'class': 'actions', 'role': 'group', 'aria-label': 'Actions on the selected batches', 'hidden': '' }, buttons.map(({ element }) => element), weightForm);
  const element = h('div', { class: 'selection' }, h('label', { class: 'select-all' }, all, 'Select all shown'), number, actions);

  const chosen = () => rows.filter((row) => selected.has(keyOf(row)));
  const changed = [];

  function choose(which, on) {
    for (const row of which) selected[on ? 'add' : 'delete'](keyOf(row));
    draw();
    for (const tell of changed) tell();
  }

  async function act(action, body = action.body ?? (() => ({}))) {
    const wanted = chosen().filter(action.fits);
    if (busy || wanted.length === 0) return;
    const question = action.asks?.(wanted);
    if (question && !(await confirmed(question.text, question.yes, question.no))) return;
    busy = true;
    setAttribute(element, 'aria-busy', true);
    const outcome = await each(wanted, action.what, body);
    busy = false;
    setAttribute(element, 'aria-busy', null);
    const told = outcome.done ? action.tell(outcome.done, outcome.jobs) : '';
    if (outcome.problems.length) say(`${told} Not done for ${batches(outcome.problems.length)}: ${outcome.problems[0]}`.trim(), 'bad');
    else say(told);
    done();
  }

  // One after the other: the daemon has other clients, too.
  async function each(wanted, what, body) {
    const outcome = { done: 0, jobs: 0, problems: [] };
    for (const row of wanted) {
      try {
        const reply = await api.act(row, what, body(row));
        outcome.done += 1;
        outcome.jobs += reply.jobs ?? 0;
      } catch (error) {
        outcome.problems.push(`${row.name || row.id}: ${error.message}`);
      }
    }
    return outcome;
  }

  weightForm.addEventListener('submit', (event) => {
    event.preventDefault();
    const wanted = Number(weight.value);
    act({ what: 'weight', fits: (row) => !over(row), tell: (count_of) => `The weight of ${batches(count_of)} is now ${wanted}.` }, () => ({ weight: wanted }));
  });

  function draw() {
    const now = chosen();
    const focused = document.activeElement;
    all.checked = rows.length > 0 && now.length === rows.length;
    all.indeterminate = now.length > 0 && now.length < rows.length;
    setText(number, now.length ? `${count(now.length)} selected` : '');
    show(actions, now.length > 0);
    for (const { action, element: button } of buttons) {
      const fit = now.filter(action.fits).length;
      setText(button, fit && fit < now.length ? `${action.text} (${count(fit)})` : action.text);
      button.disabled = fit === 0;
    }
    setWeight.disabled = !now.some((row) => !over(row));
    // If the focused button can no longer be used, the box that selects gets the focus, for keyboard users.
    if (actions.contains(focused) && (focused.disabled || !focused.checkVisibility())) all.focus();
  }

  return {
    element,
    has: (row) => selected.has(keyOf(row)),
    toggle: (row, on) => choose([row], on),
    // `tell` is called after a change that was made here.
    onChange: (tell) => changed.push(tell),
    // The rows that are listed. What is not listed is not selected: nothing happens to a batch that cannot be seen.
    update(listed, may) {
      rows = listed;
      const keys = new Set(rows.map(keyOf));
      for (const key of selected) if (!may || !keys.has(key)) selected.delete(key);
      show(element, may && rows.length > 0);
      draw();
    },
  };
}
