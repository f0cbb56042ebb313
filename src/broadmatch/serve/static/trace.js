// Behind a phrase: the words, leaves and training pages that brought it (MLRF §5.5), and phrases that are left out since.

import { call } from "./api.js";
import { fill, fixed, make, percent, state, table, whole } from "./dom.js";
import { day } from "./tables.js";
import { toast } from "./toast.js";

export async function showTrace(room, query, keep) {
  const page = make("textarea", { rows: 2, maxlength: 1000000, placeholder: "https://… of a known page, or its text" }, query.get("page") ?? "");
  const phrases = make("div");
  const behind = make("div");
  const left = make("div");
  const given = () => {
    const text = page.value.trim();
    return /^https?:\/\/\S+$/.test(text) ? { address: text } : /^\s*</.test(text) ? { html: text } : { text };
  };
  const tried = (work) => async (...all) => {
    try {
      await work(...all);
    } catch (error) {
      fill(all[0] instanceof Event ? phrases : behind, state(error.message, error.status === 404 ? "" : "bad"));
    }
  };

  const recommend = tried(async (e) => {
    e?.preventDefault();
    if (!page.value.trim()) return fill(phrases, state("Paste the address of a page that the server knows, or a page’s text."));
    keep({ page: page.value.length < 2000 ? page.value.trim() : "" });
    const found = await call("POST", "/v1/recommend", { ...given(), k: 30 });
    const rows = found.phrases.map((one) => make("button.text", { onclick: () => trace(one.phrase) }, `${one.phrase} `, make("small", fixed(one.score))));
    fill(phrases, rows.length ? make("div.bar", rows) : state("The model has no phrase for this page."));
  });

  const trace = tried(async (phrase) => {
    keep({ phrase });
    const found = await call("POST", "/v1/studio/trace", { ...given(), phrase });
    const { address } = given();
    const voting = found.leaves.filter((leaf) => leaf.vote > 0);
    const pages = found.pages.map((one) => [one.page, percent(one.share), `${one.trees} of ${found.n_trees}`, one.labels.slice(0, 8).join(" · ") + (one.n_labels > 8 ? ` and ${one.n_labels - 8} more` : "")]);
    const exclude = (where, text) => make("button", { onclick: tried(() => change(true, phrase, where)) }, text);
    fill(behind, make("section.card",
      make("h2.text", `Behind “${found.phrase}”`),
      make("p", `${found.model} ${found.version}: score ${fixed(found.score, 3)}, ${found.place ? `place ${found.place}` : "not among the first 100"}${found.excluded ? "; it is excluded" : ""}.`, found.n_trees > 0 && ` ${voting.length} of ${found.n_trees} trees vote for it.`),
      make("div.bar", !found.excluded && [exclude(undefined, "Exclude it everywhere"), address && exclude(address, "Exclude it on this page")]),
      found.words.length > 0 && [make("h3", "Words of the page on the way"), make("p.text", found.words.map(([word, amount]) => `${word} (${Number(amount.toPrecision(3))})`).join(", "))],
      make("h3", "Training pages that brought it"),
      pages.length ? table("Training pages", ["Page", "#Share of the vote", "#Trees", "Labelled with"], pages)
        : state(`A ${found.model} keeps no training pages in its leaves; an MLRF does.`),
      voting.length > 0 && make("details", make("summary", `${whole(voting.length)} leaves`), table("Leaves", ["#Tree", "#Vote", "#Pages", "Words that the page has there", "#Tests in all"],
        voting.slice(0, 30).map((leaf) => [leaf.tree + 1, fixed(leaf.vote, 3), leaf.n_pages, leaf.path.filter(([, lacks]) => !lacks).map(([test]) => test).join("; ") || "none", leaf.path.length])))));
  });

  async function change(out, phrase, address) {
    const about = { phrase, ...(address && { address }) };
    const found = await call("POST", out ? "/v1/studio/excluded" : "/v1/studio/excluded/undo", about);
    listed(found.excluded);
    toast(out ? `“${phrase}” is excluded ${address ? "on this page" : "everywhere"}.` : `“${phrase}” may be recommended again.`, { undo: () => change(!out, phrase, address) });
    if (page.value.trim()) await Promise.all([recommend(), trace(query.get("phrase") ?? phrase)]);
  }

  function listed(excluded) {
    const rows = excluded.map((one) => [one.phrase, one.address ?? "everywhere", day(one.since), make("button", { onclick: tried(() => change(false, one.phrase, one.address)) }, "Bring back")]);
    fill(left, make("h2", "Excluded phrases"), rows.length ? table("Excluded phrases", ["Phrase", "Where", "~Since (UTC)", make("span.hidden-text", "undo")], rows) : make("p.quiet", "None. Excluding only leaves a phrase out of answers; to cure the model, train again without the label."));
  }

  fill(room,
    make("p.quiet", "Follow a bad phrase to the training pages that brought it, and exclude it."),
    make("form.bar", { onsubmit: recommend }, make("label.wide", "Page", page), make("button.main", { type: "submit" }, "Recommend")),
    phrases, behind, left);
  listed((await call("GET", "/v1/studio/excluded")).excluded);
  if (page.value.trim()) await recommend();
  if (page.value.trim() && query.get("phrase")) await trace(query.get("phrase"));
}
