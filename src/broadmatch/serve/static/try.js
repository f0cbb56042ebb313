// The endpoints of the server as its OpenAPI document has them, each with a body to begin with; the address keeps which.

const EXAMPLES = {
  post_match: { query: "pizza delivery", context: { city: "boston", device: "mobile" } },
  post_predict: { rows: [{ query: "pizza delivery", position: 1 }] },
  post_events: { kind: "clicks", impression: "the impression of a place" },
  post_recommend: { text: "Running shoes for every foot", k: 5 },
  put_ad: { phrases: [{ phrase: "stone oven pizza", match: "broad", bid: 0.5 }], title: "Luigi" },
  post_ads: { changes: [{ change: "bid", ad: "my-ad", phrase: "stone oven pizza", match: "broad", bid: 0.6 }] },
};

const element = (tag, properties = {}, ...children) => {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
};

const key = document.querySelector("#key");
const headers = () => (key.value ? { Authorization: `Bearer ${key.value}` } : {});

async function load() {
  const list = document.querySelector("#endpoints");
  const answer = await fetch("/v1/openapi.json", { headers: headers() });
  if (!answer.ok) {
    list.replaceChildren(element("p", { textContent: (await answer.json()).detail }));
    return;
  }
  const { paths } = await answer.json();
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method: method.toUpperCase(), ...operation })),
  );
  const buttons = operations.map((operation) => {
    const button = element("button", { type: "button" }, element("b", { textContent: operation.method }), operation.path);
    button.addEventListener("click", () => { location.hash = operation.operationId; });
    return button;
  });
  list.replaceChildren(...buttons);
  const show = () => {
    const chosen = Math.max(0, operations.findIndex((one) => `#${one.operationId}` === location.hash));
    buttons.forEach((button, i) => button.setAttribute("aria-current", String(i === chosen)));
    present(operations[chosen]);
  };
  window.onhashchange = show;
  show();
}

function present(operation) {
  const trial = document.querySelector("#trial");
  const fields = (operation.parameters ?? []).map(({ name }) => element("input", { name, required: true, placeholder: name }));
  const body = operation.requestBody && element("textarea", {
    spellcheck: false,
    value: JSON.stringify(EXAMPLES[operation.operationId] ?? {}, null, 2),
  });
  const send = element("button", { type: "button", className: "send", textContent: "Send" });
  const status = element("p", { className: "status" });
  const shown = element("pre", { hidden: true });
  send.addEventListener("click", async () => {
    let path = operation.path;
    for (const field of fields) path = path.replace(`{${field.name}}`, encodeURIComponent(field.value));
    const started = performance.now();
    try {
      const answer = await fetch(path, {
        method: operation.method,
        headers: { ...headers(), ...(body ? { "Content-Type": "application/json" } : {}) },
        body: body?.value,
      });
      const text = await answer.text();
      status.textContent = `${answer.status} ${answer.statusText}, ${(performance.now() - started).toFixed(1)} ms`;
      status.dataset.good = String(answer.ok);
      shown.textContent = readable(text);
      shown.hidden = false;
    } catch (error) {
      status.textContent = `The server does not answer: ${error.message}.`;
      status.dataset.good = "false";
    }
  });
  trial.replaceChildren(
    element("h2", { textContent: `${operation.method} ${operation.path}` }),
    element("p", { textContent: `${operation.summary} ${operation.description ?? ""}` }),
    ...fields.map((field) => element("label", {}, `${field.name} `, field)),
    ...(body ? [element("label", {}, "Body", body)] : []),
    send, status, shown,
  );
}

function readable(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

key.addEventListener("change", load);
load();
