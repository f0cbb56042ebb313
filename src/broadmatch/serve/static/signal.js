// A signal's page: what it is, its versions, who consumes it, what vetting found, who changed what; and changes of its status.

import { call } from "./api.js";
import { chart } from "./chart.js";
import { coded, fill, make, percent, state, table, whole } from "./dom.js";
import { AT, clipped, link, named, tag } from "./signals.js";
import { toast } from "./toast.js";

const time = (text) => text.slice(0, 16).replace("T", " ");
const wide = (tag, text) => make(`${tag}.text.whole`, text.length > 300 ? { tabindex: 0 } : {}, text);
const number = (value) => (Number.isFinite(value) ? Number(value.toPrecision(4)).toString() : "–");

export async function show(room, name) {
  const found = await call("POST", `${AT}/one`, { name });
  const said = make("div");
  const again = () => show(room, name);
  // Whoever changes it says what they saw: the second of two hears that it is not so any more.
  const change = async (to, more = {}, revision = found.revision) => {
    try {
      const made = await call("POST", "/v1/signals/status", { name: found.name, to, revision, ...more });
      const undo = to === "deprecated" && found.status === "white-listed" && (() => change("white-listed", {}, made.found.revision));
      toast(`${found.name.slice(0, 80)} is ${to}.`, { undo });
      await again();
    } catch (error) {
      fill(said, state(error.message, "bad"), error.status === 409 && make("div.bar", make("button", { onclick: again }, "Look at it again")));
    }
  };
  const facts = found.facts.map(([term, texts]) => [make("dt", term), wide("dd", texts.join("\n"))]);
  const charts = make("div.columns");
  fill(room,
    wide("h2", found.name), make("p", tag(found.status), " ", coded(found.next)), said, found.may_change && found.status !== "retired" && changes(found, change),
    make("div.columns", make("section.card", make("h2", "What it is"), make("dl", facts, found.replacement && [make("dt", "Use instead"), make("dd", named(found.replacement))])),
      make("section.card", make("h2", "Versions"), make("ul.plain", found.versions.map(([one, status]) => make("li", one === found.name ? clipped(one) : named(one), " ", tag(status)))))),
    make("h2", "Consumers"), consumers(found), make("p", make("a", { href: link(name, "graph") }, "Lineage of signals and models")),
    make("h2", "Vetting"), vetted(found), charts,
    make("h2", "History"), table("History", ["~When (UTC)", "Who", "~What", "Changes"], found.history.map((one) => [
      time(one.time), clipped(one.who), one.what, one.changes.map(([field, before, after]) => make("div.clip", { title: after }, make("b", field), ` ${before}${before && " → "}${after || "–"}`))])));
  for (const { title, dates, lines } of found.pictures.filter((one) => one.lines.length)) {
    const host = make("section.card");
    charts.append(host);
    chart(host, { label: title, height: 200, zero: true, y: { label: title, text: number }, series: lines.map(([of, points]) => ({ name: of, points })),
      x: { label: dates ? "day" : "", text: (value) => (dates ? new Date(864e5 * value).toISOString().slice(0, 10) : number(value)) } });
  }
}

function changes({ status, n_open: open, replacement, by_date: by, reason, vettings }, change) {
  const field = (label, more) => make("label", label, make("input", { maxlength: 10000, ...more }));
  const [use, date, why, end] = [field("Use instead (name@version)", { value: replacement ?? "" }), field("By", { type: "date", value: by >= new Date().toISOString() ? by : "" }), field("Reason", { value: reason }), field("Reason")];
  const force = make("label.row", { hidden: !open }, make("input", { type: "checkbox" }), `although ${whole(open)} consume it`);
  const form = (text, button, work, ...fields) => make("details", make("summary", text), make("form.bar.card", { onsubmit: (e) => (e.preventDefault(), work()) }, fields, make("button.main", { type: "submit" }, button)));
  const given = (label) => label.lastChild.value || null;
  return make("div.bar.changes", ["vetted", "deprecated"].includes(status) && vettings[0]?.[1] && make("button.main", { onclick: () => change("white-listed") }, "White-list it"),
    form("Deprecate it", "Deprecate", () => change("deprecated", { use: given(use), by_date: given(date), reason: given(why) ?? "" }), use, date, why),
    form("Retire it", "Retire for good", () => change("retired", { reason: given(end) ?? "", force: force.firstChild.checked }), end, force));
}

function consumers({ consumers: all, n_consumers: many }) {
  if (!many) return state("No model has reported it. Learners that run with `--signals` report what they consume.");
  const rows = all.map((one) => [clipped(one.model), clipped(one.team || "–"), clipped(one.environment || "–"), one.use, percent(one.coverage ?? NaN), time(one.last_seen), one.open ? "yes" : "no", clipped(one.contact || "–")]);
  return [table("Consumers", ["Model", "Team", "Environment", "~Use", "#Coverage", "~Last seen (UTC)", "~Still", "Contact"], rows), many > rows.length && make("p.quiet", `The first ${whole(rows.length)} of ${whole(many)}.`)];
}

function vetted({ vettings, findings }) {
  if (!vettings.length) return state("It was never vetted. `broadmatch signals vet NAME DATA --description TOML` measures it on a log.");
  const verdict = ([at, passed]) => make("span", make("b", { class: passed ? "good" : "bad" }, passed ? "Passed" : "Not passed"), ` ${time(at)} UTC `);
  const rows = findings.map((one) => [one.passed ? "✓" : make("b.bad", "✗"), one.rule, number(one.value), one.bound, one.text]);
  return [make("p", vettings.slice(0, 5).map(verdict)), rows.length > 0 && table("Rules", [make("span.hidden-text", "passed"), "Rule", "#Value", "~Bound", "What was found"], rows)];
}
