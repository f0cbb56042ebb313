// What a plan is asked by: a page (pasted, dropped, or by its address), phrases that one has, phrases one never wants.

import { fill, make } from "./dom.js";
import { toast } from "./toast.js";

const LARGEST = 5_900_000;

export function kindOf(text) {
  if (/^\s*https?:\/\/\S+\s*$/i.test(text)) return "address";
  return /<(!doctype|html|head|body|title|meta|p|div|h[1-6]|a|ul|table|span|section|article|main)\b/i.test(text) ? "html" : "text";
}

// The field of the page; `changed()` is called whenever `plan.text` or `plan.file` is another.
export function pageField(plan, changed) {
  const said = make("small", { id: "page-kind" });
  const field = make("textarea", {
    rows: "3", id: "planner-page", spellcheck: "false", "aria-describedby": "page-kind",
    placeholder: "Paste the address of a known page, its HTML, or any text …",
    oninput: () => ((plan.text = field.value), (plan.file = null), tell(), changed()),
  });
  const pick = make("input.hidden-text", { type: "file", accept: ".html,.htm,.txt,.md,text/*", tabindex: "-1", "aria-hidden": "true", onchange: () => take(pick.files[0]) });
  const choose = make("button", { onclick: () => pick.click() }, "Choose a file …");
  const clear = make("button.plain", { onclick: empty }, "Clear");
  const files = make("span.chips");

  function tell() {
    const kinds = { address: "Read as the address of a known page.", html: "Read as HTML.", text: "Read as plain text." };
    said.textContent = plan.file ? "Read from the file." : plan.text.trim() ? kinds[kindOf(plan.text)] : "Or drop a file here.";
    clear.hidden = !plan.file && !plan.text;
    fill(files, plan.file && chip(`${plan.file.name} · ${(plan.file.text.length / 1e6).toFixed(2)} MB`, empty));
  }

  function set(text, file = null) {
    [plan.text, plan.file, field.value] = [text, file, text];
    tell();
    changed();
  }

  function empty() {
    const [text, file] = [plan.text, plan.file];
    set("");
    toast(file ? `Removed ${file.name}.` : "Cleared the page.", { undo: () => set(text, file) });
    field.focus();
  }

  async function take(file) {
    if (!file) return;
    const text = await file.text();
    pick.value = "";
    if (text.length > LARGEST) return void toast(`${file.name} has ${(text.length / 1e6).toFixed(1)} million letters; at most ${LARGEST / 1e6} can be read.`);
    if (text.includes("\0")) return void toast(`${file.name} is no text; save the page as HTML or text.`);
    set("", { name: file.name, text, kind: kindOf(text) === "html" ? "html" : "text" });
  }

  const card = make("div.drop",
    make("label", { for: "planner-page" }, "Page"), field,
    make("div.bar.tight", choose, clear, files, said), pick);
  for (const name of ["dragover", "dragleave", "drop"])
    card.addEventListener(name, (e) => {
      e.preventDefault();
      card.classList.toggle("over", name === "dragover");
      if (name === "drop") take(e.dataTransfer.files[0]);
    });
  field.value = plan.text;
  tell();
  return { element: card, set };
}

const chip = (text, remove) =>
  make("span.tag.chip", make("span.text", text),
    make("button.plain", { label: `Remove ${text}`, onclick: remove }, "×"));

// A list of phrases as chips; Enter, comma or a pasted list adds, × removes with undo.
export function phraseList(label, about, phrases, changed) {
  const list = make("span.chips");
  const field = make("input", { autocomplete: "off", placeholder: about, label,
    onkeydown: (e) => {
      if ((e.key === "Enter" || e.key === ",") && field.value.trim()) (e.preventDefault(), add(field.value));
      else if (e.key === "Backspace" && !field.value && phrases.length) remove(phrases.at(-1));
    },
    onpaste: (e) => {
      const text = e.clipboardData.getData("text");
      if (/[\n,;]/.test(text)) (e.preventDefault(), add(text));
    },
    onblur: () => field.value.trim() && add(field.value) });

  function draw() {
    fill(list, phrases.map((phrase) => chip(phrase, () => remove(phrase))));
    changed();
  }
  function add(text) {
    field.value = "";
    const fresh = text.split(/[\n,;]+/).map((one) => one.trim().slice(0, 200)).filter((one) => one && !phrases.includes(one));
    if (!fresh.length) return;
    phrases.push(...fresh.slice(0, 1000 - phrases.length));
    draw();
  }
  function remove(phrase) {
    const at = phrases.indexOf(phrase);
    if (at < 0) return;
    phrases.splice(at, 1);
    draw();
    field.focus();
    toast(`Removed “${phrase}”.`, { undo: () => (phrases.splice(at, 0, phrase), draw()) });
  }
  fill(list, phrases.map((phrase) => chip(phrase, () => remove(phrase))));
  return { element: make("div.phrases", make("span.label.quiet", label), list, field), add, draw };
}
