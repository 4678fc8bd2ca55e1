// SPDX-License-Identifier: Apache-2.0
'use strict';
const {figures, tables} = JSON.parse(document.getElementById('data').textContent);

// Charts: plotly.js draws them, once they come near the window, in the colours of the page. It is a second's work to
// read, so that is left until the first of them is drawn: the words are there before.
function library() {
  const text = document.getElementById('library');
  if (!window.Plotly) document.body.append(element('script', text.textContent));
  return Plotly;
}
const paper = {ink: '#1d2228', soft: '#5c6570', rule: '#dfe3e8'};
const hovers = matchMedia('(hover: hover)').matches;  // else the buttons would always lie on the picture
let printing = false;
function colour(name) {
  return printing ? paper[name] : getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();
}
// On a phone the names beside bars are broken into lines, and a scale beside a heat map has no room.
function folded(name) {
  const lines = [''];
  for (const word of name.split(/ · |, /)) {
    const longer = (lines[lines.length - 1] + ' · ' + word).replace(/^ · /, '');
    if (longer.length <= 18 || longer === word) lines[lines.length - 1] = longer; else lines.push(word);
  }
  return lines.join('<br>');
}
// Room for a long legend is added, not taken from the picture.
function legendHeight({data, layout}, width) {
  const names = layout.showlegend === false ? [] :
    data.filter(({name, showlegend}) => name !== undefined && showlegend !== false).map(({name}) => name);
  const columns = Math.max(1, Math.floor((width - 60) / (50 + 7 * Math.max(...names.map(name => name.length)))));
  return 19 * Math.max(0, Math.ceil(names.length / columns) - 2);
}
function fitted({data, layout}, width) {
  layout = {...layout, height: layout.height + legendHeight({data, layout}, width)};
  if (innerWidth > 640 || printing) return {data, layout};
  layout.annotations = layout.annotations?.map(one => ({...one, font: {...one.font, size: 8},
    textangle: /[a-z]/i.test(one.text) ? -90 : 0}));
  if (!layout.yaxis.ticktext || !layout.yaxis.automargin) return {data, layout};
  const small = 10, lines = layout.yaxis.ticktext.map(folded);
  const most = Math.max(...lines.map(line => line.split('<br>').length));
  return {data: data.map(trace => trace.type === 'heatmap' ? {...trace, showscale: false} : trace),
    layout: {...layout, height: Math.max(layout.height, 130 + lines.length * most * 1.5 * small),
      yaxis: {...layout.yaxis, ticktext: lines, tickfont: {size: small}}}};
}
async function draw(place) {  // asynchronous: what fails here is said and keeps no other from being drawn
  const {data, layout: given} = fitted(figures[Number(place.dataset.figure)], place.clientWidth);
  const ink = colour('ink'), rule = colour('rule');
  const axis = more => ({gridcolor: rule, linecolor: rule, zerolinecolor: rule, automargin: true, ...more});
  const layout = {showlegend: true, ...given,
    paper_bgcolor: 'rgba(0,0,0,0)', plot_bgcolor: 'rgba(0,0,0,0)',
    font: {color: ink, size: 13, family: 'system-ui, sans-serif'},
    margin: {t: 10, r: 10, b: 50, l: 60, ...given.margin},
    legend: {orientation: 'h', y: 1.02, yanchor: 'bottom', x: 0, traceorder: 'normal'},
    modebar: {bgcolor: 'rgba(0,0,0,0)', color: colour('soft')}, hoverlabel: {align: 'left'},
    xaxis: axis(given.xaxis), yaxis: axis(given.yaxis)};
  place.drawn = true;
  return library().react(place, data, layout,
    {responsive: true, displaylogo: false, displayModeBar: hovers && 'hover',
      modeBarButtonsToRemove: ['lasso2d', 'select2d']});
}
const places = [...document.querySelectorAll('.figure')];
const near = new IntersectionObserver(entries => {
  for (const {isIntersecting, target} of entries) if (isIntersecting && !target.drawn) draw(target);
}, {rootMargin: '300px'});
places.forEach(place => near.observe(place));
const shown = () => places.filter(place => place.offsetParent !== null);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () =>
  places.filter(place => place.drawn).forEach(draw));
addEventListener('beforeprint', () => { printing = true; shown().forEach(draw); });
addEventListener('afterprint', () => { printing = false; shown().forEach(draw); });

for (const choice of document.querySelectorAll('.choice')) {
  const panels = [...choice.querySelectorAll('.panel')];
  choice.querySelector('select').addEventListener('change', event =>
    panels.forEach((panel, index) => { panel.hidden = index !== Number(event.target.value); }));
}

// Long tables are built when they are opened, a stretch at a time. Text is only ever set as text.
function element(kind, text, name) {
  const made = document.createElement(kind);
  if (text !== undefined) made.textContent = text;
  if (name) made.className = name;
  return made;
}
function build(place) {
  const {head, columns, name} = tables[Number(place.dataset.table)];
  let rows = columns[0].row.map((_, index) => columns.map(({row, cells}) => cells[row[index]]));
  if (head.length === 1) rows = rows.map(words => [words.join(' ').trim()]);
  const table = element('table', undefined, name), body = element('tbody'), find = element('input');
  const more = element('button', 'More'), count = element('span', '', 'note'), scroll = element('div', '', 'scroll');
  const titles = element('tr');
  head.forEach(title => titles.append(element('th', title)));
  table.append(element('thead'), body);
  table.tHead.append(titles);
  let found = rows, until = 0;
  const words = cell => Array.isArray(cell) ? cell[1] : cell;
  const extend = () => {
    for (const row of found.slice(until, until + 100)) {
      const line = element('tr');
      for (const cell of row) line.append(element('td', words(cell), Array.isArray(cell) ? cell[0] : ''));
      body.append(line);
    }
    until = Math.min(until + 100, found.length);
    count.textContent = ` ${until} of ${found.length} `;
    more.hidden = until === found.length;
  };
  find.type = 'search';
  find.placeholder = 'find';
  find.setAttribute('aria-label', 'find in the table');
  find.addEventListener('input', () => {
    const wanted = find.value.toLowerCase().split(' ');
    found = rows.filter(row => {
      const text = row.map(words).join(' ').toLowerCase();
      return wanted.every(word => text.includes(word));
    });
    until = 0;
    body.replaceChildren();
    extend();
  });
  more.addEventListener('click', extend);
  scroll.append(table);
  place.replaceChildren(find, count, scroll, more);
  extend();
}
const opened = new IntersectionObserver(entries => {
  for (const {isIntersecting, target} of entries) if (isIntersecting && !target.firstChild) build(target);
}, {rootMargin: '300px'});
document.querySelectorAll('.table').forEach(place => opened.observe(place));

// A button beside each command.
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {  // where the clipboard is closed to pages from a file
    const area = element('textarea', text);
    document.body.append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
  }
}
for (const command of document.querySelectorAll('.command')) {
  const button = element('button', 'Copy');
  button.addEventListener('click', async () => {
    await copy(command.querySelector('pre').textContent);
    button.textContent = 'Copied';
    setTimeout(() => { button.textContent = 'Copy'; }, 1500);
  });
  command.append(button);
}
