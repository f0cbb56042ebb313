// Blind sheets to grade by keyboard: 1 to 4 grade and go on, arrows move, u takes back; a grade counts when it is on disk.

import { call, send } from "./api.js";
import { address, coded, fill, fixed, make, save, select, state, table, whole } from "./dom.js";

export const title = "Judge";
const key = (name) => make("kbd", name);
const WHO = "broadmatch-judge";

export async function show(main, query) {
  const { sheets, grades, relevant } = await call("GET", "/v1/studio/sheets");
  const head = make("h1", title);
  if (!sheets.length) return fill(main, head, state("There is no sheet to judge. `broadmatch judge make model/ pages/ --out server/studio/judgements/sheet.csv` makes one."));
  const names = sheets.map((one) => one.name);
  const sheet = names.includes(query.get("sheet")) ? query.get("sheet") : names[0];
  const who = query.get("judge") ?? sessionStorage.getItem(WHO) ?? "";
  const open = (changes) => {
    for (const [name, value] of Object.entries({ sheet, judge: who, ...changes })) query.set(name, value);
    address(`judge?${query}`);
    return show(main, query);
  };
  const name = make("input", { value: who, required: true, maxlength: 64, autocomplete: "off" });
  const room = make("div");
  const agreed = make("section.card");
  fill(main,
    head,
    make("form.bar", { onsubmit: (e) => (e.preventDefault(), sessionStorage.setItem(WHO, name.value.trim()), open({ judge: name.value.trim() })) },
      select("Sheet", names, sheet, (one) => open({ sheet: one })), make("label", "Your name", name), make("button.main", { type: "submit" }, who ? "Change" : "Begin")),
    room, agreed);
  agreement();
  if (!who.trim()) return fill(room, state("Say who you are, so that your grades are kept as yours; then grade with the keys 1 to 4."));

  const { pages } = await call("POST", "/v1/studio/sheets/rows", { sheet, judge: who });
  const rows = pages.flatMap((page) => page.phrases.map((phrase, i) => ({ page: page.page, phrase, grade: page.grades[i], of: page })));
  let at = Math.max(0, rows.findIndex((row) => row.grade === null));
  const [done, waiting, seen] = [[], [], new Map()];
  let writing = false;
  const [text, list, said] = [make("div.page-text.card", { tabindex: 0, role: "region", label: "The page" }), make("ol"), make("p", { role: "status" })];
  const link = make("h2.text");
  fill(room,
    make("p.quiet", "Does the phrase fit the page? ", Object.entries(grades).map(([grade, word]) => [key(grade), ` ${word} `]), "– ", key("↓"), key("↑"), " row, ", key("→"), key("←"), " page, ", key("u"), ` undo. From ${relevant} on it counts as relevant. Nothing here says which model gave a phrase.`),
    said, make("div.sheet", make("div", link, text), list));

  const graded = () => rows.filter((row) => row.grade !== null).length;
  const go = (to) => (to >= 0 && to < rows.length && (at = to), draw());

  function give(grade, row = rows[at], undoing = false) {
    if (!undoing) done.push([row, row.grade]);
    row.grade = grade;
    row.unsaved = true;
    waiting.push([row, grade]);
    const next = rows.findIndex((one, i) => i > at && one.grade === null);
    if (undoing) at = rows.indexOf(row);
    else if (row === rows[at] && at + 1 < rows.length) at = next < 0 ? at + 1 : next;
    draw();
    write();
  }
  const undo = () => done.length && give(...done.pop().reverse(), true);

  // One after the other, in order; what could not be written stays in the queue, and is tried again.
  async function write() {
    if (writing) return;
    writing = true;
    while (waiting.length) {
      const [row, grade] = waiting[0];
      try {
        await call("POST", "/v1/studio/sheets/grade", { sheet, judge: who, page: row.page, phrase: row.phrase, grade });
        waiting.shift();
        row.unsaved = waiting.some(([one]) => one === row);
        tell();
      } catch (error) {
        tell(`${error.message} ${waiting.length} ${waiting.length > 1 ? "grades wait" : "grade waits"} in this page; do not close it.`);
        if (error.locked || !room.isConnected) break;
        await new Promise((later) => setTimeout(later, 2000));
      }
    }
    writing = false;
    if (!waiting.length) agreement();
  }

  function tell(trouble = "") {
    said.className = trouble ? "bad" : "quiet";
    said.textContent = trouble || `${whole(graded())} of ${whole(rows.length)} graded${waiting.length ? ", writing …" : ", all on disk"}.${graded() === rows.length ? " The sheet is done: thank you." : ""}`;
    list.querySelectorAll("li").forEach((item, i) => item.classList.toggle("unsaved", !!rows[first(rows[at].of) + i]?.unsaved));
  }
  const first = (page) => rows.findIndex((row) => row.of === page);

  function draw() {
    const { of } = rows[at];
    const start = first(of);
    if (link.textContent !== of.page) look(of.page);
    list.setAttribute("aria-label", `Phrases of page ${pages.indexOf(of) + 1} of ${pages.length}`);
    fill(list, of.phrases.map((phrase, i) => {
      const row = rows[start + i];
      const choices = Object.entries(grades).map(([grade, word]) => make("button", { "aria-pressed": String(row.grade === Number(grade)), label: `${grade} ${word}: ${phrase}`, title: word, onclick: () => ((at = start + i), give(Number(grade))) }, grade));
      return make("li", { class: start + i === at ? "now" : "", "aria-current": start + i === at ? "true" : undefined, onclick: (e) => e.target.closest("button") || go(start + i) }, make("span.text", phrase), make("span.grades", choices));
    }));
    list.querySelector(".now").scrollIntoView({ block: "nearest" });
    tell();
  }

  async function look(page) {
    link.textContent = page;
    if (!seen.has(page)) seen.set(page, call("POST", "/v1/studio/sheets/page", { page }).catch((error) => ({ blocks: [{ kind: "text", text: error.message }] })));
    const { blocks } = await seen.get(page);
    if (link.textContent !== page) return;
    const tags = { title: "h3", heading: "h3", meta: "p", text: "p" };
    fill(text, blocks.length ? blocks.map((one) => make(`${tags[one.kind]}.text`, one.text)) : make("p.quiet", "The server does not know this page’s text; open it by its address."));
    text.scrollTop = 0;
  }

  // Before the frame, whose digits change the page.
  function onKey(e) {
    if (!room.isConnected) return removeEventListener("keydown", onKey, true);
    if (e.ctrlKey || e.metaKey || e.altKey || e.target.closest?.("input, select, textarea, dialog, .page-text")) return;
    const page = pages.indexOf(rows[at].of);
    const moves = { ArrowDown: at + 1, ArrowUp: at - 1, ArrowRight: first(pages[page + 1]), ArrowLeft: first(pages[page - 1]) };
    if (Object.hasOwn(grades, e.key)) give(Number(e.key));
    else if (Object.hasOwn(moves, e.key)) go(moves[e.key]);
    else if (e.key === "u" || e.key === "Backspace") undo();
    else return;
    e.preventDefault();
    e.stopImmediatePropagation();
  }
  addEventListener("keydown", onKey, true);
  addEventListener("beforeunload", (e) => waiting.length && room.isConnected && e.preventDefault());
  draw();
  if (main.contains(document.activeElement)) document.activeElement.blur();

  async function agreement() {
    const found = await call("POST", "/v1/studio/sheets/agreement", { sheet }).catch((error) => (fill(agreed, state(error.message, "bad")), null));
    if (!found) return;
    const say = (value) => (value ? `${fixed(value.value, 3)} (${fixed(value.low, 3)} to ${fixed(value.high, 3)})` : "– (two judges need rows in common)");
    const download = async () => save(await (await send("GET", `/v1/studio/sheets/${sheet}.csv`)).blob(), `${sheet}.grades.csv`);
    const judges = Object.entries(found.judges);
    fill(agreed, make("div", make("h2", "Agreement"),
      make("p", `On relevant or not: ${say(found.agreement)}. ${found.kappa_name}: ${say(found.kappa)}.`),
      judges.length > 0 && table("Judges", ["Judge", "#Graded", "#Rows"], judges.map(([judge, n]) => [judge, whole(n), whole(found.n_rows)])),
      make("div.bar", judges.length > 0 && make("button", { onclick: download }, "Save the grades as CSV")),
      make("p.quiet", coded(`\`broadmatch evaluate ${sheet}.key.json --judgements ${sheet}.grades.csv\` says what they mean for each model.`))));
  }
}
