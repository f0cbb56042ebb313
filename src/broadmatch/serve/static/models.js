// Models: what is served and since when, its figures by hour, how right it is, what it weighs, and what is behind a phrase.

import { call } from "./api.js";
import { chart } from "./chart.js";
import { address, coded, fill, fixed, make, percent, select, signed, state, table, whole } from "./dom.js";
import { bothWays, day } from "./tables.js";
import { showTrace } from "./trace.js";

export const title = "Models";
const TABS = { served: ["Served", served], curves: ["By hour", curves], reliability: ["Reliability", reliability], features: ["Features", features], trace: ["Behind a phrase", showTrace] };

export async function show(main, query) {
  const tab = Object.hasOwn(TABS, query.get("tab")) ? query.get("tab") : "served";
  const links = Object.entries(TABS).map(([name, [text]]) => make("a", { href: `#models?tab=${name}`, "aria-current": name === tab ? "true" : undefined }, text));
  const room = make("div", state("Loading …"));
  fill(main, make("h1", title), make("nav.tabs", { label: "Parts of this page" }, links), room);
  const keep = (changes) => {
    for (const [name, value] of Object.entries({ tab, ...changes })) value ? query.set(name, value) : query.delete(name);
    address(`models?${query}`);
  };
  try {
    await TABS[tab][1](room, query, keep);
  } catch (error) {
    if (error.locked) throw error;
    fill(room, state(error.message, error.status === 404 ? "" : "bad"));
  }
}

async function served(room) {
  const found = await call("GET", "/v1/studio/models");
  const arms = found.arms.map((arm) => [arm.name, percent(arm.share, 0), arm.version + (arm.pinned ? " (pinned)" : ""), arm.published_at ? day(arm.published_at) : "with the folder", whole(arm.n_nonzero), arm.calibration ?? "none", arm.previous.slice(-3).reverse().join(", ") || "–"]);
  const said = { publish: ["put in service", "good"], hold: ["held back", "bad"], wait: ["waits", ""] };
  const versions = found.versions.map((one) => {
    const [text, kind] = said[one.decision] ?? ["by hand", ""];
    return [one.name, one.kind, one.arm ?? "–", day(one.published_at), make("span", { class: `tag ${kind}` }, one.in_service.length ? `in service: ${one.in_service.join(", ")}` : text), fixed(one.figures.log_loss, 4), fixed(one.figures.log_loss_in_service, 4), fixed(one.figures.calibration, 3), one.reason ?? ""];
  });
  const phrases = found.recommender ? `${found.recommender}, version ${found.recommender_version}` : "none; put one in the folder’s recommender/, or `broadmatch publish recommender`";
  fill(room,
    make("p", coded(`All of this since ${day(found.since)} UTC: ${whole(found.n_ads)} ads with ${whole(found.n_bids)} bids. Phrase model: ${phrases}.`)),
    make("h2", "Arms of the click model"),
    table("Arms", ["~Arm", "#Share", "~Version", "~Published (UTC)", "#Coefficients", "~Calibration", "Before it"], arms),
    make("h2", "Published versions, and what the guard said"),
    versions.length ? table("Versions", ["~Version", "~Kind", "~Arm", "~Published (UTC)", "~State", "#Log loss", "#In service", "#Clicks / expected", "Why"], versions)
      : state("Nothing was published yet: the folder’s own models are served. `broadmatch clicks follow server/events --publish server/` learns and publishes."));
}

async function curves(room, query, keep) {
  const asked = { arm: query.get("arm") ?? "main", metric: query.get("metric") ?? "LogLoss", slicing: query.get("slicing") ?? "all", days: 7 };
  const [found, models] = await Promise.all([call("POST", "/v1/studio/models/curves", asked), call("GET", "/v1/studio/models")]);
  const redraw = (changes) => (keep(changes), curves(room, query, keep));
  const arms = models.arms.length > 1 && select("Arm", models.arms.map((arm) => arm.name), asked.arm, (arm) => redraw({ arm }));
  if (!found.hours.length) return fill(room, make("div.bar", arms), state("No hour of traffic was measured yet. `broadmatch clicks follow server/events --publish server/` measures each full hour once its clicks are in."));
  const slices = [...new Set(found.curves.map((one) => one.slice))];
  const slice = slices.includes(query.get("slice")) ? query.get("slice") : slices[0];
  const host = make("div");
  fill(room,
    make("div.bar", arms, select("Figure", Object.keys(found.metrics), asked.metric, (metric) => redraw({ metric, slicing: "", slice: "" })),
      found.slicings.length > 1 && select("By", found.slicings, asked.slicing, (slicing) => redraw({ slicing, slice: "" })),
      slices.length > 1 && select("Slice", slices, slice, (one) => redraw({ slice: one }))), host);
  const about = `${asked.metric}: ${found.metrics[asked.metric] || ""}`;
  const series = found.curves.filter((one) => one.slice === slice).map((one) => ({ name: one.model || "traffic", points: found.hours.map((hour, i) => [hour, one.values[i]]) }));
  if (!series.length) return fill(host, state(`There is no ${asked.metric} by ${asked.slicing}; choose another figure.`));
  const step = [1, 3, 6, 12, 24, 72].find((hours) => found.hours.length / hours <= 8) ?? 168;
  const marks = found.hours.filter((hour) => hour % (3600 * step) === 0);
  chart(host, { label: about, x: { label: "hour (UTC)", text: (value) => day(value).slice(5), ticks: marks }, y: { label: about, text: (value) => Number(value.toPrecision(3)).toString() }, series });
  room.append(make("p.quiet", "“served” is the model in service, “learned” the learner beside it; both said it before the click was known (progressive)."));
}

async function reliability(room, query, keep) {
  const slicing = query.get("slicing") ?? "all";
  const found = await call("POST", "/v1/studio/models/reliability", { slicing });
  if (!found.n) return fill(room, state(`No impression of the log can be judged yet: ${whole(found.n_young)} are younger than ${found.window / 60} minutes, and may still be clicked; of ${whole(found.n_gone)} the model is gone.`));
  const redraw = (changes) => (keep(changes), reliability(room, query, keep));
  const one = found.slices.find((each) => each.slice === query.get("slice")) ?? found.slices[0];
  const rate = (value) => percent(value, value < 0.1 ? 2 : 1);
  const [curve, unsure] = [make("div"), make("div")];
  fill(room,
    make("div.bar", select("By", found.slicings, slicing, (by) => redraw({ slicing: by, slice: "" })), found.slices.length > 1 && select("Slice", found.slices.map((each) => each.slice), one.slice, (slice) => redraw({ slice }))),
    make("p.quiet", `${whole(found.n)} impressions of the log’s end, each as the version that served it sees it in its place, before its click was known. Left out: ${whole(found.n_young)} that may still be clicked, ${whole(found.n_gone)} whose model is gone.`),
    make("div.columns", make("section.card", make("h2.text", `Reliability: ${one.slice}`), curve), make("section.card", make("h2", "u(x) against error"), unsure)),
    make("h2", "Slices"),
    table("Slices", ["Slice", "#Impressions", "#Clicks", "#Error before", "#after", "#Bias before", "#after"],
      found.slices.map((each) => [each.slice, whole(each.n), whole(each.clicks), ...each.errors.map((value) => percent(value, 2)), ...each.biases.map((value) => (value === null ? "–" : `${signed(100 * value, 1)} %`))])));
  chart(curve, { label: `Click rate by prediction, ${one.slice}`, kind: "points", diagonal: true, x: { label: "prediction", text: rate }, y: { label: "click rate, 95 %", text: rate }, series: [{ name: "before calibration", points: one.before }, { name: "after", points: one.after }] });
  if (found.uncertainty.length) {
    chart(unsure, { label: "Error by u(x)", kind: "points", zero: true, diagonal: true, x: { label: "u(x)", text: (value) => fixed(value) }, y: { label: "distance of click rate and prediction in log-odds, 95 %", text: (value) => fixed(value) }, series: [{ name: "error", points: found.uncertainty }] });
    unsure.append(make("p.quiet", "Below the dashed line, a bin of impressions is off by less than its u(x)."));
  } else unsure.append(state("Fewer than 100 impressions can be judged."));
}

async function features(room, query, keep) {
  const found = await call("POST", "/v1/studio/models/features", { arm: query.get("arm") ?? "main", top: 20 });
  const signals = [...new Set(found.features.map((one) => one.signal))].sort();
  const chosen = signals.includes(query.get("signal")) ? query.get("signal") : "all signals";
  const shown = found.features.filter((one) => chosen === "all signals" || one.signal === chosen).slice(0, 50);
  const most = Math.max(...shown.map((one) => Math.abs(one.weight)), 1e-9);
  const names = found.named_by === "model" ? "Names are those that the model keeps." : `The model keeps no names; these are of the newest impressions of the log, and ${whole(found.n_unnamed)} features with weights as large have none there. \`broadmatch clicks train --names\` keeps all.`;
  fill(room,
    make("p.quiet", coded(`${whole(found.n_nonzero)} of ${whole(found.n_features)} features have a coefficient. ${names}`)),
    make("div.bar", select("Signal", ["all signals", ...signals], chosen, (signal) => (keep({ signal }), features(room, query, keep)))),
    shown.length ? table("Features", ["Signal", "Value", make("span.hidden-text", "bar"), "#Coefficient (log-odds)", "#Learning rate"], shown.map((one) => [one.signal, one.value, bothWays(one.weight, most), signed(one.weight, 3), fixed(one.rate, 4)]))
      : state("No feature has a name yet: serve some searches, or train with names."));
}
